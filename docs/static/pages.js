// The menu is as long as the reference: show the page that is open.
addEventListener("load", () => {
  const [menu, shown] = [".sidebar-scroll", ".sidebar-tree a.current"].map(name => document.querySelector(name));
  if (menu && shown) menu.scrollTop = shown.getBoundingClientRect().top - menu.getBoundingClientRect().top - menu.clientHeight / 3;
});
