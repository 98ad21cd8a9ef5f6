"""Questions on tables: every one has an answer, all are asked at once, and the command that is printed runs."""

import shlex

import numpy as np
import pytest
from commands import call, exit_code

from gatedrnn.errors import Question, typed
from gatedrnn.tables.questions import ask_at_once
from gatedrnn.tasks.forecast.read import read_tables
from gatedrnn.tasks.forecast.settings import ForecastSettings
from gatedrnn.tasks.series.files import Reading, read_series

DAYS = [str(day) for day in np.arange("2024-01-01", "2024-03-31", dtype="datetime64[D]")]
WAVE = [f"{100 + 10 * np.sin(day / 7 * 2 * np.pi) + day % 5:.1f}" for day in range(90)]
LIST = ", ".join(WAVE)


def table(header, *columns, separator=","):
    return "\n".join([header, *(separator.join(row) for row in zip(*columns, strict=True))])


FORECASTS = {
    "marks.csv": table("ds;y", DAYS, ["892", *(f"1.{n}" for n in range(101, 190))], separator=";"),
    "order.csv": table("ds,y", [f"1/{month}/2024" for month in range(1, 13)], WAVE[:12]),
    "two-times.csv": table("ordered,shipped,y", DAYS, [str(np.datetime64(day) + 9) for day in DAYS], WAVE),
    "no-usual-time.csv": table("x,y", [f"{n / 2:.1f}" for n in range(90)], WAVE),
    "columns-or-rows.csv": table(",".join(f"x{n}" for n in range(30)), *(WAVE[n:] + WAVE[:n] for n in range(30))),
    "lists.jsonl": f'{{"item": "a", "start": "2024-01-01", "target": [{LIST}]}}',
    "twice.csv": table("ds,y", [*DAYS, DAYS[-1]], [*WAVE, "99"]),
    "two-targets.csv": table("unique_id,ds,sales,price", ["a"] * 90, DAYS, WAVE, WAVE[::-1]),
    "series.csv": table(
        "ds,shop,town,y", DAYS[:45] * 2, ["a"] * 45 + ["b"] * 45, ["p"] * 22 + ["q"] * 45 + ["p"] * 23, WAVE
    ),
    "uneven.csv": table(
        "paid,y", [str(np.datetime64("2024-01-01T08:00:07", "s") + n**2 * 79) for n in range(90)], WAVE
    ),
    "known-ahead.csv": table("ds,y,temperature", DAYS, [*WAVE[:80], *[""] * 10], WAVE[::-1]),
}  # fmt: skip


def asked(path, **settings):
    with pytest.raises(Question) as question:
        read_tables(ForecastSettings(task="forecast", train_file=path, **settings))
    return question.value


def as_settings(flags):
    settings, name = {}, ""
    for word in shlex.split(flags):
        if word.startswith("--"):
            name = word.removeprefix("--").replace("-", "_")
            settings[name] = []
        else:
            settings[name].append(word)
    return {name: values if len(values) > 1 else values[0] if values else True for name, values in settings.items()}


@pytest.mark.parametrize("name", FORECASTS)
def test_each_answer_of_a_question_on_a_table_reads_it(name, tmp_path):
    path = tmp_path / name
    path.write_text(FORECASTS[name])
    question = asked(path)
    assert question.answers and question.rows
    for answer in question.answers:
        flags = typed(answer)
        assert flags.split()[0] in str(question)
        assert read_tables(ForecastSettings(task="forecast", train_file=path, **as_settings(flags))).table.series


def test_all_questions_on_a_table_are_asked_at_once_and_answered_together(tmp_path):
    path = tmp_path / "several.csv"
    path.write_text(
        table("ordered;shipped;y", DAYS, [str(np.datetime64(day) + 9) for day in DAYS],
              ["892", *(f"1.{n}" for n in range(101, 190))], separator=";")
    )  # fmt: skip
    question = asked(path)
    assert question.answers == [
        {"time_column": [time], "decimal": [mark]}
        for time, mark in (("ordered", "."), ("shipped", "."), ("ordered", ","))
    ]
    assert "--time-column ordered or --time-column shipped" in str(question)
    assert question.rows[0].split() == ["ordered", "shipped", "y"] and len(question.rows) == 4
    read = read_tables(ForecastSettings(task="forecast", train_file=path, **as_settings(typed(question.answers[0]))))
    assert read.table.series[0].values[:2].tolist() == [892, 1.101]


def test_columns_are_steps_where_it_is_said_or_rows_have_names(tmp_path):
    path = tmp_path / "steps.csv"
    path.write_text("V1,V2,V3,V4,V5,V6,V7,V8,V9\nM1,1,2,3,4,5,6,7,8\nM2,2,3,4,,6,7,,\n")
    found = read_tables(ForecastSettings(task="forecast", train_file=path)).table
    assert [(one.name, len(one.values)) for one in found.series] == [("M1", 8), ("M2", 6)] and "are steps" in found.said
    path.write_text("a,b,c\n1,2,4\n3,5,4\n")
    found = read_tables(ForecastSettings(task="forecast", train_file=path, columns_are_steps=True)).table
    assert [one.values.tolist() for one in found.series] == [[1, 2, 4], [3, 5, 4]]
    path.write_text("kind,a,b,c\nx,1,2,4\ny,3,5,4\n")
    curves = read_series(path, Reading(label_column="kind", columns_are_steps=True))
    assert [values.ravel().tolist() for values in curves.values] == [[1, 2, 4], [3, 5, 4]]


def test_rows_are_steps_where_it_is_said_or_nothing_could_be_a_time(tmp_path):
    path = tmp_path / "steps.csv"
    path.write_text(table("a,b", WAVE, WAVE[::-1]))
    found = read_tables(ForecastSettings(task="forecast", train_file=path)).table
    assert "No column holds times: each row is a step" in found.said
    assert [(one.name, str(one.times[-1])) for one in found.series] == [("a", "89"), ("b", "89")]
    path.write_text(table("unique_id,x,y", ["a"] * 45 + ["b"] * 45, DAYS, WAVE))
    found = read_tables(ForecastSettings(task="forecast", train_file=path, rows_are_steps=True, target="y")).table
    assert [(one.name, str(one.times[-1])) for one in found.series] == [("a", "44"), ("b", "44")]


@pytest.mark.slow
@pytest.mark.parametrize("name", FORECASTS)
def test_the_command_that_a_question_prints_runs(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text(FORECASTS[name])
    fast = ["--total-steps", "1", "--no-refit", "--baselines", "none", "--horizon", "2"]
    assert exit_code("forecast", name, *fast) == 2
    commands = [line for line in capsys.readouterr().err.splitlines() if line.startswith("  gatedrnn forecast")]
    assert commands
    for number, command in enumerate(commands):
        call(*shlex.split(command)[1:], "--output", f"run-{number}")
        assert (tmp_path / f"run-{number}" / "forecast.csv").exists()


def test_what_is_said_of_a_file_is_recorded_in_the_model_and_read_by_predict(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = table("Datum;Umsatz", DAYS, [value.replace(".", ",") for value in WAVE], separator=";")
    (tmp_path / "sales.csv").write_text("Bericht\nStand\n" + rows)
    fast = "--total-steps 1 --no-refit --baselines none --horizon 2 --skip-lines 2 --separator ; --decimal ,"
    call("forecast", "sales.csv", *fast.split(), "--output", "run")
    call("predict", "run", "sales.csv", "--output", "out.csv")
    assert (tmp_path / "out.csv").read_text() == (tmp_path / "run" / "forecast.csv").read_text()


def test_questions_whose_answers_undo_each_other_are_asked_once():
    def read(answers):
        column = "b" if answers.get("time_column") == ["a"] else "a"
        raise Question(f"is {column} the time?", [{"time_column": [column]}])

    with pytest.raises(Question, match=r"is a the time\? \(--time-column a\); is b the time\?"):
        ask_at_once(read)
