"""The command line: bad input gets one clear line and the right exit code, and loses nothing; without extras commands
name the one they need; a help page has the defaults of a run to which nothing else is given.
"""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest
from commands import call, exit_code, outcome, printed
from finished import copy_of
from refusals import refused

import gatedrnn
import gatedrnn.runs
import gatedrnn.studies
from gatedrnn.cli.app import build_app, main
from gatedrnn.data import LANGUAGE
from gatedrnn.data.registry import all_settings, task_names
from gatedrnn.errors import UsageError
from gatedrnn.study.settings import ContenderSettings, ProbeSettings
from gatedrnn.study.suite import _OF_SEARCH
from gatedrnn.training import loop
from gatedrnn.training.chosen import completed, default_run
from gatedrnn.training.folder import RunFolder
from gatedrnn.training.settings import setting_names
from gatedrnn.training.task import task_named

BAD = {
    "compar": "did you mean",
    "compare --cells lstm mingur": "did you mean 'mingru'",
    "compare --task digist": "Did you mean 'digits'",
    "compare --hiden-size 8": "Did you mean --hidden-size",
    "compare --epochs 0": "--epochs: Input should be greater than or equal to 1 (got '0')",
    "compare --jobs 0": "must be at least 1",
    "compare --early-stop 3": "--early-stop: all contenders take the same number of steps",
    "compare --steps 16": "--steps: must be 8 (rows) or 64 (pixels)",
    "compare --task text-classification": "needs --train-file",
    "compare --task text-classification --train-file nowhere.csv": "nowhere.csv: no such file",
    "compare --task ag_news --train-file only.csv": "give both --train-file and --test-file",
    "compare --task digits --cells mingru lstm --hidden-size 1 --match params --embedding-size 512": "within 5 %",
    "compare --train-file reviews.csv": "reviews.csv: which task is it for? give --task",
    "compare --token-dropout 0.1": "digits has no unknown token",
    "compare --task digits --validation-fraction 0.001": "cannot be split",
    "compare --config .": ".: is a directory",
    "train --resume nowhere": "nowhere: holds no run",
    "train --task forecast --pooling max": "--pooling is of classifiers; leave it out with forecast",
    "train --task forecast --members 0": "--members: Input should be greater than or equal to 1",
    "train --task language-model --members 2": "--members is of classifiers and forecasts; leave it out with language",
    "train --task parity --permuted": "gatedrnn: --permuted belongs to mnist, not to parity; name one with --task",
    "train --task digits --cell slstm --zoneout 0.1": "--zoneout mixes each state by itself, and those of slstm belong",
    "compare --task digits --cells lstm slstm --zoneout 0.1": "--zoneout mixes each state by itself, and those of",
    "train --task digits --cell lstm --longest-time-scale 50": "goes with --bias-init 'time-scales', and that of lstm",
    "compare --task digits --cells mingru mamba --weight-init xavier": "--weight-init is of recurrent layers, and ma",
    "train --task digits --bidirectional --block": "--pooling 'last' needs the directions apart, which a block mixes",
    "train --task digits --cell transformer --embedding-size 7": "need an even --embedding-size, got 7",
    "train --task digits --cell transformer --embedding-size 0": "--embedding-size 0 is for numbers that go into recur",
    "train --task digits --cell mamba --bidirectional": "--bidirectional: mamba reads forwards alone",
    "train --task digits --cell slstm:heads=3 --hidden-size 16": "--hidden-size of slstm:heads=3 must be a multiple of",
    "train --task digits --cell mingru:log_space=true --zoneout 0.1": "--zoneout makes steps without a logarithm, so",
    "train --task digist --help": "Did you mean 'digits'",
    "train --train-file reviews.csv": "reviews.csv: which task is it for? give --task forecast, series-classification",
    "train --task digits --total-steps -1": "gatedrnn: --total-steps: Input should be",
    "train --task digits --cell broken.py:Own": "--cell: broken.py:Own: running the file fails: SystemExit: 3",
    "compare --task digits --cells broken.py:Own": "gatedrnn: --cells: broken.py:Own: running the file fails",
    "verify mingur": "did you mean 'mingru'",
    "verify --dtypes float16": "float16",
    "describe lstn": "did you mean 'lstm'",
    "describe gru --proj-size 3": "gru: proj_size argument is only supported for LSTM",
    "describe mingru --weight-dropout 0.5": "mingru: weight_dropout drops recurrent weights",
    "describe lstm --model runs/none": "described one at a time; give one of them",
    "describe --model runs/none": "there is no such folder",
    "describe lstm --zoneout 1": "lstm: zoneout should be a number in range [0, 1)",
    "describe lstm --hidden-size 8 --expansion 2": "give one",
    "describe lstm --hidden-size 0": "must be at least 1",
    "describe lstm --expansion -1": "must be above 0",
    "describe gru mgu:reset_after=false": "there is no option of mgu 'reset_after'",
    "describe lstm --hidden-size 1000000": "GiB, and this machine has",
    "describe lstm --hidden-size 10000000000000": "more parameters than can be counted in 64 bits",
}


@pytest.mark.parametrize("command", BAD)
def test_bad_usage_gets_one_line_and_exit_code_2(command, refused, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    Path("reviews.csv").write_text("a,b\n2.5,1.5\n")
    Path("broken.py").write_text("raise SystemExit(3)\n")
    refused(BAD[command], *command.split())
    left = {path.name for path in tmp_path.iterdir()} - {"__pycache__"}
    assert left == {"reviews.csv", "broken.py"}, "something was left behind"


@pytest.mark.parametrize("content, said", [
    ("hiden_size: 8\n", "hiden_size"),
    ("cells: [lstm\nseeds: }", "while parsing"),
    ("on: nowhere\n", "--on nowhere: must be local, slurm, ray"),  # YAML 1.1 reads the bare word as a truth value
    ("task: digits\nlength: 30\n", "--length belongs to probes and language-model, not to digits"),
])  # fmt: skip
def test_a_file_of_settings_is_refused_as_flags_are(content, said, refused):
    Path("mine.yaml").write_text(content)
    refused(said, "compare", "--config", "mine.yaml", "--output", "out")


def test_settings_come_from_recipe_file_and_flags_in_this_order(monkeypatch):
    asked, given = [], "task: digits\ncells: [lstm]\nseeds: [3]\nepochs: 1\nhidden_size: 8\nbatch_size: 50\n"
    Path("mine.yaml").write_text(given)

    def compare(settings, folder, **_):
        asked.append((settings, folder))
        raise KeyboardInterrupt

    monkeypatch.setattr("gatedrnn.study.experiment.compare", compare)
    assert exit_code("compare", "--config", "mine.yaml", "--batch-size", 60, "--threads", 1, "--output", "here") == 130
    ((settings, folder),) = asked
    who, train = settings.contenders, settings.train
    assert (who.cells, who.seeds, who.hidden_size, folder) == (["lstm"], [3], 8, Path("here"))
    assert (train.epochs, train.batch_size) == (1, 60)
    assert train.learning_rate == task_named("digits").recipe.cells["train"]["learning_rate"]


@pytest.mark.parametrize("by", ["flag", "file"])
def test_a_comparison_of_recipes_has_what_train_takes_but_for_its_validation_part(by, monkeypatch):
    Path("texts.csv").write_text(
        "text,label\n" + "".join(f"{'fine' if n % 2 else 'poor'} {n},{n % 2}\n" for n in range(99))
    )
    Path("mine.yaml").write_text("recipes: true\nbatch_size: 7\n")
    asked = []
    monkeypatch.setattr(
        "gatedrnn.study.experiment.compare", lambda settings, *_, **__: asked.append(settings) or exit(0)
    )
    for more in (["--recipes"] if by == "flag" else ["--config", "mine.yaml"]), []:
        assert exit_code("compare", "--train-file", "texts.csv", *more, "--threads", 1) == 0
    recipes, cells = asked
    taken = completed(default_run("text-classification", train_file="texts.csv", validation_fraction=0.1), ())
    assert recipes.model == taken.model != cells.model and recipes.contenders.recipes and not cells.contenders.recipes
    assert recipes.train.total_steps == taken.train.total_steps and cells.train.total_steps == 0
    assert recipes.data.validation_fraction == cells.data.validation_fraction == 0.1
    assert recipes.train.batch_size == (64 if by == "flag" else 7)


def test_an_interrupted_run_is_resumed_by_its_own_settings_unless_it_is_damaged(tmp_path, capsys, refused):
    def interrupted(*_):
        raise KeyboardInterrupt

    run, flags = tmp_path / "whole", ["--hidden-size", 8, "--total-steps", 2, "--checkpoint-every", 1, "--threads", 1]
    with pytest.MonkeyPatch.context() as patch:  # between its last checkpoint and its end
        patch.setattr(loop.Trainer, "finish", interrupted)
        code, error = outcome(capsys, "train", "--task", "digits", *flags, "--output", run)
    assert code == 130 and "interrupted" in error
    refused("leave out --batch-size", "train", "--resume", run, "--batch-size", 50)
    refused("would have had the learning rate", "train", "--resume", run, "--epochs", 50)
    refused("give one of them", "train", "--resume", run, "--finish", run)
    damaged = copy_of(run, tmp_path)
    (weights,) = damaged.glob("checkpoint/step-*/model.safetensors")
    weights.write_bytes(weights.read_bytes()[:-1])
    refused("model.safetensors has", "train", "--resume", damaged, code=1)
    loop.run(RunFolder(run).settings(), run)
    assert not (run / "checkpoint").exists(), "a finished run keeps its model, not its checkpoint"


def test_a_folder_of_something_else_is_left_alone_and_fresh_removes_nothing_for_what_cannot_be(refused, tmp_path):
    file, comparison = tmp_path / "run" / "model" / "precious", tmp_path / "comparison" / "comparison.yaml"
    for path in (file, comparison):
        path.parent.mkdir(parents=True)
        path.write_text("years of work")
    refused("holds no run", "train", "--task", "digits", "--output", "run")
    flags = "--embedding-size 512 --fresh --output comparison"
    refused("no such file", *f"compare --train-file nowhere.csv --task text-classification {flags}".split())
    refused("within 5 %", *f"compare --cells mingru lstm --hidden-size 1 {flags}".split())
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == {file, comparison}


@pytest.fixture(scope="module")
def flags_of():
    """The flags of each command, with what its docstring says of them."""
    whole, found = build_app(), {}
    for name in (name for name in whole if not name.startswith("-")):
        documented = inspect.getdoc(whole[name].default_command) or ""
        found[name] = documented, whole[name].assemble_argument_collection(parse_docstring=True)
    return found


def test_help_says_what_every_flag_is(flags_of):
    """All of what the docstring, or the setting's own, says of it: no flag goes without, none loses its first line."""
    for command, (documented, listed) in flags_of.items():
        flags = [flag for flag in listed if flag.show]
        assert flags
        for flag in flags:
            words, name = flag.parameter.help or "", flag.field_info.name
            assert words.rstrip().endswith((".", "…")), f"{command} {flag.name}: {words!r}"
            assert not re.search("(?<!`)<", words), f"{command} {flag.name}: cyclopts takes <unk> for HTML; quote it"
            if f"\n    {name}: " in documented:
                assert f"\n    {name}: {words.splitlines()[0]}" in documented, f"{command} {flag.name}"


@pytest.mark.parametrize("command", ["export", "predict", "compare", "forecast"])
def test_the_help_of_a_command_says_all_that_its_function_says(command, capsys):
    described = inspect.getdoc(build_app()[command].default_command).partition("\n\nArgs:")[0]
    shown = " ".join(printed(capsys, command, "--help").partition("╭")[0].split())
    for sentence in re.split(r"(?<=[.:;]) ", " ".join(described.replace("`", "").split())):
        assert sentence in shown


def test_the_list_of_commands_names_no_kind_of_model_where_there_are_others(capsys):
    listed = " ".join(printed(capsys, "--help").split())
    assert "export Write a model for programs without Python." in listed
    assert "predict Predict labels, numbers or a forecast." in listed


OF_ALL_COMMANDS = {"--config", "--help", "--help-all", "--flags", "--trust-code", "--oversubscribe"}
OF_GIT = {"--branch", "--no-optional-locks", "--porcelain", "--untracked-files"}


def test_every_flag_that_the_code_names_is_one(flags_of):
    known = {name for _, listed in flags_of.values() for flag in listed for name in flag.names}
    known |= {f"--{name.replace('_', '-')}" for task in all_settings().values() for name in task.model_fields}
    named = {
        flag
        for path in Path(gatedrnn.__file__).parent.rglob("*.py") for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for flag in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", node.value)
    }  # fmt: skip
    assert len(named) > 50 and named - known == OF_ALL_COMMANDS | OF_GIT


EXTRAS = (
    "transformers accelerate datasets huggingface_hub tokenizers safetensors pydantic yaml jinja2 plotly matplotlib "
    "sklearn scipy psutil onnx onnxscript onnxruntime"
)
WITHOUT = """
import sys

missing = sys.argv[1].split()

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NotInstalled())
from gatedrnn.cli.app import main

for line in sys.argv[2:]:
    try:
        main(line.split())
        code = 0
    except SystemExit as stop:
        code = stop.code
    print(f"exit code of {line}: {code}", file=sys.stderr)
"""
TO_INSTALL = " is not installed; this needs: pip install -c constraints.txt '.[series,export]', in the folder of "
TO_INSTALL += "gatedrnn's source"
CORE = ["--help", "describe mingru --hidden-size 8", "verify --help"]
OTHERS = ["train", "train --help", "compare --task digits", "compare --help", "probe", "evaluate run"]


@pytest.fixture(scope="module")
def said_without_extras():
    command = [sys.executable, "-c", WITHOUT, EXTRAS, *CORE, *OTHERS]
    return subprocess.run(command, capture_output=True, text=True, check=True).stderr.splitlines()


def test_without_extras_commands_of_the_core_work_and_others_name_the_extra(said_without_extras):
    said, lines = said_without_extras[: len(CORE)], said_without_extras[len(CORE) :]
    assert said == [f"exit code of {command}: 0" for command in CORE], said_without_extras
    for command, line, code in zip(OTHERS, lines[::2], lines[1::2], strict=True):
        assert line.startswith("gatedrnn: ") and line.endswith(TO_INSTALL), (command, line)
        assert code == f"exit code of {command}: 2"


FROM_PYTHON = """
import sys
exec(sys.argv[1].partition("from gatedrnn.cli")[0].replace("sys.argv[1]", "sys.argv[2]"))
import gatedrnn
from importlib import import_module

def opened(name):
    return lambda: import_module(f"gatedrnn.{name}")

calls = {name: getattr(gatedrnn, name) for name in ("train", "forecast", "compare", "probe", "Run")}
calls["load"] = calls["Run"] = lambda: gatedrnn.load("run")
names = "estimators", "models", "training.callbacks", "data.frames", "study.results", "executors", "export.onnx", "view"
for name, call in {**calls, **{name: opened(name) for name in names}}.items():
    try:
        call()
    except ImportError as error:
        assert isinstance(error, ModuleNotFoundError) and isinstance(error, gatedrnn.errors.Error), name
        print(f"{name}: {error}")
gatedrnn.MinGRU(3, 8)
"""


def test_without_extras_what_needs_them_from_python_says_the_same_as_the_command():
    done = subprocess.run([sys.executable, "-c", FROM_PYTHON, WITHOUT, EXTRAS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 14 and [line for line in lines if not line.endswith(TO_INSTALL)] == []


def test_a_fault_of_our_own_import_is_not_taken_for_a_missing_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "gatedrnn.cli.describe", None)
    call("--version")
    with pytest.raises(ImportError, match=r"gatedrnn\.cli\.describe"):
        main(["describe", "mingru"])


def shown(capsys, monkeypatch, *arguments):
    """The defaults on a help page, by flag."""
    monkeypatch.setenv("COLUMNS", "1000")
    lines = printed(capsys, *arguments, "--help-all").splitlines()
    found = (re.match(r"│ --([a-z0-9-]+) .*\[default: (.*)\]\s*│$", line) for line in lines)
    return {match[1].replace("-", "_"): match[2] for match in found if match}


def recorded(monkeypatch, *arguments):
    """The settings that config.yaml holds for a run with these arguments."""
    settings = []

    def run(asked, *_, **__):
        settings.append(asked.flat())
        raise KeyboardInterrupt

    monkeypatch.setattr("gatedrnn.training.loop.run", run)
    monkeypatch.setattr(
        "gatedrnn.training.chosen.completed", lambda settings, _: settings
    )  # by data, and there are none
    assert exit_code("train", *arguments) == 130
    return settings[0]


def as_written(value):
    """`0.01`, `False` and `()` as Python has them; a word as it is."""
    try:
        return ast.literal_eval(value)
    except (SyntaxError, ValueError):
        return value


OFTEN = (LANGUAGE, "digits", "s5", "forecast")


@pytest.mark.parametrize(
    "task", [*OFTEN, *(pytest.param(t, marks=pytest.mark.slow) for t in task_names() if t not in OFTEN)]
)
def test_help_shows_what_a_run_of_the_task_records(task, capsys, monkeypatch):
    page, config = shown(capsys, monkeypatch, "train", "--task", task), recorded(monkeypatch, "--task", task)
    assert page.pop("task") == LANGUAGE, "the task that is trained where none is named"
    own = [page.pop(name) for name in ("wait", "workers", "log", "baselines", "trust_code", "oversubscribe")]
    assert own == ["False", "0", "()", "plain", "False", "False"], "of the process, not of the run"
    assert {name: as_written(value) for name, value in page.items()} == {
        name: tuple(value) if isinstance(value, list) else value for name, value in config.items() if name != "task"
    }


@pytest.mark.slow
@pytest.mark.parametrize("command", ["compare", "train"])
def test_expert_flags_are_shown_on_demand_and_flags_of_other_tasks_never(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    short, whole = (printed(capsys, command, "--task", "digits", flag) for flag in ("--help", "--help-all"))
    assert max(map(len, whole.splitlines())) <= 80
    for flag in ("beta2", "zoneout", "clip", "split-seed"):
        assert f"--{flag} " not in short and f"--{flag} " in whole
    for page in (short, whole):
        assert "--steps " in page and "--permuted" not in page and "--hub " not in page
        assert all(f"─ {group} ─" in page for group in ("Data", "Model", "Training", "Run"))
    named, unnamed = (shown(capsys, monkeypatch, "train", *task) for task in ([f"--task={LANGUAGE}"], []))
    assert unnamed == named, "without a task it has the defaults of the task that is trained then"


def test_help_leaves_out_what_a_task_has_no_use_for_and_a_cell_has_the_options_of_its_recipe(capsys, monkeypatch):
    page = printed(capsys, "train", "--task", "forecast", "--help")
    assert not any(f"--{flag} " in page for flag in ("pooling", "bidirectional", "token-dropout", "label-smoothing"))
    Path("mine.yaml").write_text("task: parity\n")
    page = shown(capsys, monkeypatch, "compare", "--config", "mine.yaml")
    assert page["hidden_size"] == "16" and page["length"] == "40"
    asked = ["--cell", "mingru:activation=g,lstm", "--layers", "2"]
    assert recorded(monkeypatch, "--task", "mnist")["cell"] == "mingru:activation=identity"
    assert recorded(monkeypatch, "--task", "mnist", *asked)["cell"] == "mingru:activation=g,lstm"


def test_a_setting_that_was_removed_is_left_out_where_it_was_off_and_refused_where_it_was_on(monkeypatch, capsys):
    Path("old.yaml").write_text("task: digits\nshard: false\n")
    assert "shard" not in recorded(monkeypatch, "--config", "old.yaml")
    Path("old.yaml").write_text("task: digits\nshard: true\n")
    advice = "shard was removed: every process has all weights; leave it out"
    for flags in (["--config", "old.yaml"], ["--shard"]):
        code, said = outcome(capsys, "train", "--task", "digits", *flags)
        assert code == 2 and said.count("\n") == 1 and advice in said.replace("'", ""), said
    refused(UsageError, advice, gatedrnn.train, task="digits", shard=True)


ELSEWHERE = {
    "train": {"resume", "finish", "push_to_hub"}, "compare": {"suite"}, "forecast": {"file"}, "probe": set(),
    "evaluate": {"runs", "file", "as_json"}, "predict": {"model", "file"}, "generate": {"run"}, "export": {"run"},
    "view": {"runs", "port", "browser"},
}  # fmt: skip
"""Flags of a command that are a method of `Run`, its data or itself, another function, or ways of printing."""


@pytest.mark.parametrize("name", ELSEWHERE)
def test_every_flag_is_a_keyword_of_the_function_or_method_below(name):
    command = inspect.signature(build_app()[name].default_command, eval_str=True).parameters
    function = getattr(gatedrnn if name in vars(gatedrnn.studies) | vars(gatedrnn.runs) else gatedrnn.Run, name)
    keywords = {*inspect.signature(function).parameters} | ELSEWHERE[name]
    settings = {*setting_names(), *ContenderSettings.model_fields, *ProbeSettings.model_fields, *_OF_SEARCH}
    for flag, parameter in command.items():
        kind = getattr(parameter.annotation, "__origin__", parameter.annotation)
        fields = getattr(kind, "model_fields", {})
        assert set(fields) <= settings | {"task"} if fields else flag in keywords | settings | {"data"}, flag
