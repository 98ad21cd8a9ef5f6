"""The documentation: its code and the examples run, its commands parse, it names every public name and real files."""

import csv
import json
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from functools import wraps
from importlib import import_module
from pkgutil import iter_modules

import pytest
import torch
import yaml
from commands import call
from pages import ENGLISH, GUIDE, KOREAN, PAGES, ROOT, blocks, commands
from text_targets import films, sentences, write_lines
from tolerances import assert_equal_within
from train_helpers import small_text

import gatedrnn.cli
from gatedrnn import kinds
from gatedrnn.kinds import kind_of
from gatedrnn.registry import CELLS
from gatedrnn.study.settings import ContenderSettings, ProbeSettings
from gatedrnn.study.suite import read_suite
from gatedrnn.training.settings import setting_names

sys.path.insert(0, str(ROOT / "docs"))
import cell_pages
from lists import listed

STEPS = "--total-steps 20 --validate-every 20 --threads 1 --layers 1 --embedding-size 8"
TINY = f"--hidden-size 8 --batch-size 32 {STEPS}"  # of a training that takes a moment
SMALL = {
    "train": TINY, "forecast": TINY, "compare": f"--hidden-size 32 --seeds 0 --jobs 1 --fresh {STEPS}",
    "probe": "--tasks parity --seeds 0 --lengths 64", "verify": "--dtypes float64",
    "view": "--html page.html",
}  # fmt: skip
"""The settings that a command runs with in a test, whatever the page gives."""
EXAMPLES = ROOT / "examples"
OWN, OWN_KIND = EXAMPLES / "own_cell.py", EXAMPLES / "own_kind.py"


@pytest.fixture
def only_our_cells():
    """Cells that a page or an example registers are forgotten after the test."""
    before = dict(CELLS)
    yield
    CELLS.clear()
    CELLS.update(before)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with the files that the pages name."""
    folder = tmp_path_factory.mktemp("files")
    shutil.copytree(EXAMPLES, folder / "examples")
    for name in ("book.txt", "another.txt"):
        small_text(folder / name)
    rows = "".join(f"{'good' if i % 2 else 'bad'} book number {i},{i % 2}\n" for i in range(100))
    for name in ("reviews.csv", "labelled.csv", "unlabelled.csv"):
        (folder / name).write_text("text,label\n" + rows)
    write_lines(folder / "films.jsonl", [{"text": row["text"], "genres": row["genres"]} for row in films(100)])
    write_lines(folder / "tagged.jsonl", sentences(100))
    genres = "".join(f"film {i},{i % 2},{i % 3 == 0:d}\n" for i in range(100))
    events = [(case, event) for case in range(40) for event in ("order", "pay", "ship", *["return"] * (case % 2))]
    (folder / "log.csv").write_text("case,event\n" + "".join(f"o{case},{event}\n" for case, event in events))
    (folder / "genres.csv").write_text("text,war,comic\n" + genres)
    (folder / "scores.csv").write_text("text,score\n" + "".join(f"film {i},{i / 7}\n" for i in range(100)))
    hours = [f"2024-01-{1 + i // 24:02d} {i % 24:02d}:00,{10 + 3 * (i % 24) + i % 7}\n" for i in range(300)]
    for name, target in (("sales.csv", "sales"), ("load.csv", "load"), ("energy.csv", "OT"), ("new.csv", "OT")):
        (folder / name).write_text(f"date,{target}\n" + "".join(hours))
    times = [(i, t, "up" if i % 2 else "down") for i in range(40) for t in range(6)]
    for name in ("sensors.csv", "more-sensors.csv"):
        table = [f"s{i},{t},{word},{t * (i % 2) + i % 3},{i % 5}\n" for i, t, word in times]
        (folder / name).write_text("unique_id,ds,label,speed,load\n" + "".join(table))
    table = [f"p{i},{t},{word},{'heart rate' if t % 2 else 'pressure'},{i % 7 + t}\n" for i, t, word in times]
    (folder / "patients.csv").write_text("unique_id,time,label,parameter,value\n" + "".join(table))
    for part in ("TRAIN", "TEST"):
        series = [f"{i % 5},{i % 3},{i % 2 + 4},{i % 2 - 4}:{'wave' if i % 2 else 'nod'}\n" for i in range(40)]
        head = "@problemName Gestures\n@univariate true\n@classLabel true wave nod\n@data\n"
        (folder / f"Gestures_{part}.ts").write_text(head + "".join(series))
    return folder


@pytest.fixture(scope="module")
def workplace(files, tmp_path_factory):
    """A folder of the files and of the runs that the pages name."""
    folder = shutil.copytree(files, tmp_path_factory.mktemp("workplace") / "here")
    trained = {
        "runs/book": "--train-file book.txt --length 16 --test-fraction 0.1",
        "runs/reviews": "--task text-classification --train-file reviews.csv",
        "runs/my-digits": "--task digits",
        "runs/forecast-energy": "--task forecast --train-file energy.csv --target OT --horizon 24",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for run, data in trained.items():
            call("train", *data.split(), "--cell", "mingru", *TINY.split(), "--output", run)
        for task in ("digits", "parity"):
            call(*shrunk(["compare", "--task", task, "--cells", "lstm", "mingru"]))
    return folder


@pytest.fixture
def finished(text_run, digits_run, comparison, tmp_path):
    """A folder with runs of the same names, for pages that read a model."""
    *_, of_reviews = sorted(comparison.folder.glob("*/*/model"))
    (tmp_path / "runs").mkdir()
    for name, run in (("book", text_run), ("my-digits", digits_run), ("reviews", of_reviews.parent)):
        (tmp_path / "runs" / name).symlink_to(run)
    return tmp_path


CALLS = re.compile(
    r"gatedrnn\.(?:train|forecast|compare|probe|load)\(|(?:SeriesClassifier|Forecaster)\(|export|\.learn\("
)
"""The pattern of calls that a fast test has no time for."""
WITH_PYTHON = [
    pytest.param(page, id=page.name, marks=[pytest.mark.slow] if any(map(CALLS.search, blocks(page, "python"))) else [])
    for page in PAGES if page != KOREAN and blocks(page, "python")  # whose code is that of the other README
]  # fmt: skip


FEW = {"total_steps": 4, "hidden_size": 8, "threads": 1, "progress": False}
SHORT = {
    "train": {**FEW, "baselines": "none"}, "forecast": {**FEW, "baselines": "none"},
    "compare": {**FEW, "seeds": [0], "match": ["layers"], "validate_every": 2},
    "probe": {"tasks": ["parity"], "seeds": [0], "lengths": [64], "progress": False},
}  # fmt: skip
"""The settings that a call runs with in a test, whatever the page gives."""


@pytest.fixture
def short_calls(monkeypatch, tmp_path):
    """Functions that train take a moment, each in a folder of its own."""
    for name, settings in SHORT.items():
        call_whole = getattr(gatedrnn, name)

        def call_short(*data, output=None, whole=call_whole, settings=settings, **given):
            place = (
                tmp_path / "made" / f"{whole.__name__}-{output or len(list(tmp_path.glob('made/*')))}".replace("/", "-")
            )
            given = {key: value for key, value in given.items() if key not in ("validate_every", "seeds", "tasks")}
            return whole(*data, output=place, **{**given, **settings})

        monkeypatch.setattr(gatedrnn, name, call_short)


@pytest.mark.parametrize("page", WITH_PYTHON)
@pytest.mark.usefixtures("only_our_cells", "short_calls")
@pytest.mark.filterwarnings("ignore")  # of the tools that a page shows ours with
def test_the_python_of_a_page_runs(page, finished, files, monkeypatch):
    for file in files.iterdir():
        if not (finished / file.name).exists():
            (finished / file.name).symlink_to(file)
    monkeypatch.chdir(finished)
    namespace = {"__name__": page.stem}
    for block in blocks(page, "python"):
        exec(compile(block, page.name, "exec"), namespace)


@pytest.fixture
def called(monkeypatch):
    """The names of the commands that are called; none of them runs."""
    import gatedrnn.study.experiment  # as building a command line would

    names = []
    for module in iter_modules(gatedrnn.cli.__path__, "gatedrnn.cli."):
        name = module.name.rpartition(".")[2]
        if command := getattr(import_module(module.name), name, None):
            word = name.partition("_")[0]  # describe_table is describe of a table
            noted = wraps(command)(lambda *given, called_command=word, **named: names.append(called_command))
            monkeypatch.setattr(f"{module.name}.{name}", noted)
    return names


def asked():
    """The arguments of `gatedrnn` in the commands of all pages."""
    lines = dict.fromkeys(line for page in PAGES for name in ("gatedrnn", "torchrun") for line in commands(page, name))
    return [shlex.split(line[line.index("gatedrnn") :])[1:] for line in lines]


@pytest.mark.parametrize("part", range(24))
def test_every_command_of_a_page_takes_its_flags(part, called, files, monkeypatch):
    monkeypatch.chdir(files)
    lines = asked()[part::24]  # each builds the whole command line
    for arguments in lines:
        call(*arguments)
    assert called == [arguments[0] for arguments in lines]


def shrunk(arguments):
    """A command with the small settings in the place of the page's."""
    if "--resume" in arguments:
        return arguments
    small = SMALL.get(arguments[0], "")
    if "--train-minutes" in arguments:  # in the place of steps
        small = small.replace("--total-steps 20 ", "")
    small = small.split() + (["--trials", "2"] if "--trials" in arguments else [])
    kept, flag = [], ""
    for word in arguments:
        flag = word.split("=")[0] if word.startswith("--") else flag
        if flag not in small:
            kept.append(word)
    return kept + small


def shown():
    """The commands of each page that no page before it has, without those that need a network, a cluster or minutes."""
    programs, pages = ("gatedrnn", "python"), (*reversed(GUIDE), ENGLISH)
    of_lines = {line: page for page in pages for name in programs for line in commands(page, name)}
    found = {}
    for line, page in of_lines.items():
        if not any(word in line for word in ("--hub", "tools/", "--on ", "--suite ")):
            found.setdefault(page, []).append(line)
    return found


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", shown(), ids=lambda page: page.name)
@pytest.mark.usefixtures("only_our_cells")
@pytest.mark.filterwarnings("ignore")
def test_the_commands_of_a_page_run_in_turn(page, workplace, tmp_path, monkeypatch):
    place = shutil.copytree(workplace, tmp_path / "workplace")
    monkeypatch.chdir(place)
    for line in shown()[page]:
        program, *arguments = shlex.split(line)
        if "--output" in arguments:
            shutil.rmtree(place / arguments[arguments.index("--output") + 1], ignore_errors=True)
        if "runs/parity" in line and arguments[0] == "diagnose":
            arguments = ["diagnose", "runs/my-digits"]  # the suite of probes before it runs in a test of its own
        if program == "gatedrnn":
            call(*shrunk(arguments))
        else:
            subprocess.run([sys.executable, arguments[0], *shrunk(arguments[1:])], check=True)


def test_every_make_target_that_is_named_exists():
    makefile = (ROOT / "Makefile").read_text()
    text = "".join(page.read_text(encoding="utf-8") for page in [*PAGES, ROOT / "CONTRIBUTING.md"])
    for target in set(re.findall(r"(?:^|`)make ([a-z-]+)", text, flags=re.M)) | {"compare", "test", "docs"}:
        assert re.search(rf"^{target}:", makefile, flags=re.M), target


def reference():
    """The text of the reference, with the pages of the cells."""
    pages = [listed(page.read_text(encoding="utf-8")) for page in (ROOT / "docs" / "api").glob("*.md")]
    return "\n".join([*pages, *map(cell_pages.page, CELLS)])


def test_the_reference_has_every_public_name_and_no_other():
    text = reference()
    named = re.findall(r"^\.\. auto(?:class|function):: (?:gatedrnn\.)?(\w+)$", text, flags=re.M)
    whole_modules = re.findall(r"^\.\. automodule:: ([\w.]+)$", text, flags=re.M)
    elsewhere = {name for name in gatedrnn.__all__ if getattr(gatedrnn, name).__module__ in whole_modules}
    assert sorted(named) == sorted(set(gatedrnn.__all__) - (elsewhere - set(named)))


@pytest.mark.parametrize("name", CELLS)
def test_a_page_of_a_cell_has_its_equations_rendered_and_its_example_runs(name):
    page = cell_pages.page(name)
    _, equations, _, _ = cell_pages.parts(name)
    rendered = re.search(r"\$\$\n(.*?)\n\$\$", page, re.S)[1]
    bare = re.sub(r"\\(?:text|operatorname|begin|end)\{[^}]*\}|_\{\w+\}|\\[a-z]+", "", rendered)
    assert re.findall(r"[A-Za-z]{2,}|\*|sqrt", bare) == [], "a word or a sign that is no LaTeX"
    assert rendered.count("&=") == len(re.findall(r"(?:^|,  +)\S+ = ", equations, re.M))
    namespace = {}
    exec(re.search(r"```python\n(.*?)```", page, re.S)[1], namespace)
    assert namespace["output"].shape == (4, 20, 16) and namespace["y"].shape == (4, 16)


def test_the_guide_names_the_cells_that_take_gaps():
    said = re.search(r"These cells take `gaps`: (.*?)\.", (ROOT / "docs" / "use-a-cell.md").read_text(), re.S)[1]
    kinds = {name: each.equations() for name, each in CELLS.items()}
    assert re.findall(r"`([\w-]+)`", said) == [name for name, cell in kinds.items() if kind_of(cell).facts(cell).gaps]


def test_a_name_in_code_stands_for_what_a_reference_has():
    pytest.importorskip("sphinx")
    from names import whole

    assert whole("MinGRU") == "gatedrnn.MinGRU" and whole("linear_scan()") == "gatedrnn.linear_scan"
    assert whole("nn.LSTM") == "torch.nn.LSTM" and whole("torch.compile") == "torch.compile"
    assert whole("PackedSequence") == "torch.nn.utils.rnn.PackedSequence"
    assert whole("hx=None") is None and whole("step") is None and whole("x.y") is None


@pytest.mark.slow
def test_weights_of_keras_give_the_outputs_of_keras(tmp_path):
    """Keras asks for its backend when it is imported, so it gets a process of its own."""
    (code,) = blocks(ROOT / "docs" / "from" / "keras.md", "python")
    asked = """
import keras
for kind, take in ((keras.layers.LSTM, from_keras_lstm), (keras.layers.GRU, from_keras_gru)):
    theirs, x = kind(16, return_sequences=True, bias_initializer="random_normal"), torch.randn(4, 20, 8)
    wanted = theirs(x)
    assert (take(*theirs.get_weights())(x)[0] - wanted).abs().max() < 1e-5
"""
    backend = os.environ | {"KERAS_BACKEND": "torch", "KERAS_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code + asked], env=backend, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_page_of_settings_has_each_with_its_description():
    page = listed((ROOT / "docs" / "settings.md").read_text(encoding="utf-8"))
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| (.*) \|$", page, re.M))
    assert rows.keys() >= {*setting_names(), *ContenderSettings.model_fields, *ProbeSettings.model_fields} - {"task"}
    assert all(rows.values()) and ".. settings" not in page


def test_whatever_a_page_names_by_its_module_is_in_the_reference():
    texts = [page.read_text(encoding="utf-8") for page in [*PAGES, *(ROOT / "docs" / "learn").glob("*.md")]]
    imported = re.findall(r"^from (gatedrnn[\w.]*) import ([\w, ]+)$", "\n".join(texts), flags=re.M)
    named = {f"{module}.{name}" for module, names in imported for name in names.split(", ")}
    named |= set(re.findall(r"`(gatedrnn(?:\.\w+)+)`", "\n".join(texts)))
    there = re.findall(r"^\.\. auto\w+:: ([\w.]+)$", reference(), flags=re.M)
    assert len(named) > 20
    for name in named:
        module, _, last = name.rpartition(".")
        assert last in there or {name, module} & set(there) or any(one.startswith(f"{name}.") for one in there), name


EXECUTION = {
    "torch's kernel": "torch's fused kernel", "one kernel for all steps": "one kernel for all steps",
    "steps iterate in torch": "the step loop in torch", "scan": "one kernel for gates and scan",
    "block scan": "one block_scan",
}  # fmt: skip
"""The words of the table of cells by the beginnings of the names of paths."""


def test_every_cell_has_its_row_in_the_table_of_cells():
    """The row of a cell is the one thing that its author writes in the documentation."""
    text = (ROOT / "docs" / "use-a-cell.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| `([\w-]+)` \| ([^|]+) \| ([^|]+) \| [^|]+ \|$", text, flags=re.M)
    assert sorted(row[:2] for row in rows) == sorted((cell.layer.__name__, name) for name, cell in CELLS.items())
    for _, name, execution, transition in rows:
        layer = CELLS[name].layer(4, 4)
        assert layer.runs_on().name.startswith(EXECUTION[execution]), name
        assert kind_of(layer.cell).tracking(layer.cell).name == transition, name


def test_every_image_of_a_page_is_described():
    for page in GUIDE:
        images = re.findall(r"^```\{(?:image|figure)\}.*?^```", page.read_text(encoding="utf-8"), re.M | re.S)
        assert [image for image in images if not re.search(r"^:alt: .{20,}$", image, re.M)] == [], page.name


def test_where_things_happen_names_files_that_exist():
    with (ROOT / "docs" / "where.csv").open(encoding="utf-8") as table:
        files = [row["file"] for row in csv.DictReader(table)]
    assert len(files) >= 20 and [file for file in files if not (ROOT / file).is_file()] == []


@pytest.mark.usefixtures("only_our_cells")
def test_a_cell_of_ones_own_takes_fewer_than_30_lines_and_is_described(monkeypatch, capsys):
    assert len(OWN.read_text().splitlines()) < 30
    wanted = ["describe", "leaky-average", "--input-size", "3", "--hidden-size", "4"]
    monkeypatch.setattr(sys, "argv", ["own_cell.py", *wanted])
    with pytest.raises(SystemExit) as stop:
        runpy.run_path(str(OWN), run_name="__main__")
    said = capsys.readouterr().out
    assert not stop.value.code and "32" in said
    assert "h = (1 - r) * h + r * tanh(W_v x)" in said and "one kernel for gates and scan" in said


@pytest.mark.usefixtures("only_our_cells")
def test_a_kind_of_ones_own_gives_what_its_equations_give(monkeypatch):
    monkeypatch.setattr(kinds, "KINDS", kinds.KINDS)
    made = runpy.run_path(str(OWN_KIND))
    layer = made["DelayLine"](3, 5, num_layers=2, bidirectional=True, batch_first=True, dtype=torch.float64)
    assert layer.runs_on().name == "one cumulative sum, backend torch"
    x, mask = torch.randn(2, 9, 3, dtype=torch.float64), torch.arange(9) < torch.tensor([[9], [6]])
    for flags in ({}, {"mask": mask}):
        layer.backend = "auto"
        output, last = layer(x, **flags)
        layer.backend = "reference"
        expected, state = layer(x, **flags)
        assert_equal_within(output, expected, torch.float64, "output")
        assert_equal_within(last, state, torch.float64, "last state")


@pytest.mark.slow
def test_a_cell_of_ones_own_is_compared_in_processes_of_their_own(tmp_path):
    asked = "--cells mingru leaky-average --task digits --epochs 1 --seeds 0 --hidden-size 16 --jobs 2"
    subprocess.run([sys.executable, OWN, "compare", *asked.split()], cwd=tmp_path, check=True)
    results = json.loads((tmp_path / "runs" / "compare-digits" / "results.json").read_text())
    assert [row["name"] for row in results["contenders"]] == ["mingru", "leaky-average-layers", "leaky-average-params"]


def test_an_example_of_a_suite_is_accepted_with_a_folder_for_each_task():
    for path in EXAMPLES.glob("suite*.yaml"):
        suite, tasks = read_suite(path, threads=1), yaml.safe_load(path.read_text())["tasks"]
        assert list(suite) == list(tasks) != []
        for folder, settings in suite.items():
            assert settings.data.task == (tasks[folder] or {}).get("task", folder)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_site_is_built_without_a_warning():
    """The site has the window and the slides, as `make docs` builds them."""
    done = subprocess.run(["make", "docs"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (ROOT / "docs/_build/html/index.html").is_file()
