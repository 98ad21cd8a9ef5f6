// What a search is worth: a title with the words of the query first, then the guide, then the course and the reference.
var Scorer = {
  score: ([page, title, , , score]) => {
    const query = (new URLSearchParams(location.search).get("q") || "").trim().toLowerCase();
    const named = title.toLowerCase().includes(query) ? (title.toLowerCase().startsWith(query) ? 60 : 30) : 0;
    return score + named + (page.includes("/") ? 0 : 3);
  },
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
};
