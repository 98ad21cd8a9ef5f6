"""The command line: `gatedrnn COMMAND --flags`, a file of this folder for each command, imported when it is called.

Exit codes: 0; 2 for usage, 1 for failure, as the class of the error has it (`gatedrnn.errors`); 128 and the number of a
signal.
"""

import shlex
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Parameter, UnknownCommandError, UnknownOptionError
from cyclopts.config import Dict

from gatedrnn import __version__
from gatedrnn.cli.arguments import RUN, is_table
from gatedrnn.cli.interrupted import begins_again, goes_on, interruption
from gatedrnn.errors import (
    FAILURE,
    SIGNALLED,
    USAGE,
    Error,
    Interrupted,
    MissingExtra,
    Question,
    UsageError,
    in_one_line,
    reason,
    typed,
    unknown,
)
from gatedrnn.extras import missing
from gatedrnn.processes import ended_by_signals, oversubscribing, set_by_signals
from gatedrnn.progress import notices_shown
from gatedrnn.records import read_yaml
from gatedrnn.terminal import plain, show_all
from gatedrnn.trust import named_on, trusting

_OF_TASKS = ("compare", "forecast", "train")
"""Commands whose flags are those of the task that is named."""
_OF_A_FILE = ("compare", "train", "describe")
"""Commands whose first word may be a file of training data."""
_ON_COMMAND_LINE = ("config", "trust_code", "oversubscribe", "help", "help_all", "version")
"""Flags of every command, which a file of settings cannot give."""


def build_app(tokens: Sequence[str] = ()) -> App:
    """The command line, made anew: a configuration file, once read, would stay with it.

    Args:
        tokens: what is typed; a command that takes a task has the flags of the task that is named there.

    Raises:
        UsageError: there is no such task.
    """
    app = App(
        name="gatedrnn",
        help="Gated recurrent networks, and a fair comparison between them.",
        version=__version__,
        default_parameter=Parameter(consume_multiple=True, negative=()),
        help_flags=["--help", "-h", "--help-all"],
        suppress_keyboard_interrupt=False,  # main() reports what was saved
    )
    app.command("gatedrnn.cli.compare:compare", name="compare", help="Compare cells on a task.")
    app.command("gatedrnn.cli.report:report", name="report", help="Write reports again, or join several comparisons.")
    app.command("gatedrnn.cli.train:train", name="train", help="Train one model on a task.")
    app.command("gatedrnn.cli.forecast:forecast", name="forecast", help="Forecast the series of a table.")
    app.command("gatedrnn.cli.evaluate:evaluate", name="evaluate", help="Score trained models on data.")
    app.command("gatedrnn.cli.predict:predict", name="predict", help="Predict labels, numbers or a forecast.")
    app.command("gatedrnn.cli.generate:generate", name="generate", help="Write text with a language model.")
    app.command("gatedrnn.cli.export:export", name="export", help="Write a model for programs without Python.")
    app.command("gatedrnn.cli.probe:probe", name="probe", help="Test what cells can learn, at what length.")
    app.command("gatedrnn.cli.diagnose:diagnose", name="diagnose", help="Analyse a trained model's gates and memory.")
    app.command("gatedrnn.cli.view:view", name="view", help="Open a page that shows a model's gates step by step.")
    of_table = tokens[:1] == ["describe"] and "--train-file" in tokens
    describe = "gatedrnn.cli.describe_table:describe_table" if of_table else "gatedrnn.cli.describe:describe"
    app.command(describe, name="describe", help="Print equations, sizes and backend of cells.")
    app.command("gatedrnn.cli.verify:verify", name="verify", help="Check that all execution modes of a cell agree.")
    app.command("gatedrnn.cli.cache:cache", name="cache", help="Show or clear the cache of tokenised texts.")
    app.register_install_completion_command(help="Install completion for this shell (bash, zsh, fish), and say how.")

    @app.meta.default
    def with_config(
        *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True, consume_multiple=False)],
        config: Annotated[Path | None, Parameter(group=RUN)] = None,
        trust_code: Annotated[bool, Parameter(group=RUN)] = False,
        oversubscribe: Annotated[bool, Parameter(group=RUN)] = False,
    ) -> None:
        """Read settings from a YAML file first; flags on the command line win.

        Args:
            config: YAML file whose keys are the flags' names without the dashes in front.
            trust_code: Run Python files that are named as cells in what is opened (a run, a study, a YAML file), too,
                and not only those that the command line names.
            oversubscribe: Allow more than four processes or threads for each core.
        """
        if config is not None:
            app.config = (Dict(_read_config(config), source=str(config), use_commands_as_keys=False),)
        with trusting(named_on(tokens), trust_code=trust_code), oversubscribing(oversubscribe):
            app(tokens, exit_on_error=False, print_error=False)

    app.meta.suppress_keyboard_interrupt = False
    if tokens and tokens[0] in app and not tokens[0].startswith("-"):
        app[tokens[0]].help = None  # its function's own, in full; the line above is for the list of commands
    if of_table or (tokens and tokens[0] in _OF_TASKS):
        _offer_flags_of_task(app[tokens[0]], tokens)
    return app


def _offer_flags_of_task(command: App, tokens: Sequence[str]) -> None:
    """Give a command the flags of the task that is named."""
    from gatedrnn.cli.tasks import with_flags_of

    assert command.default_command is not None
    expert, held = "--help-all" in tokens, _task_of_file(command, tokens)
    task = held or _named_task(command, tokens)
    whole = command.name[0] != "compare" or _asks_for_recipes(tokens)
    command.default_command = with_flags_of(task, command.default_command, expert=expert, whole=whole, unnamed=held)
    decided = "" if command.name[0] == "compare" else " What the data decide of them: gatedrnn describe FILE."
    more = "" if expert else f"The flags of {task}; --help-all shows expert flags too."
    command.help_epilogue = (more + decided).strip() or None


def _asks_for_recipes(tokens: Sequence[str]) -> bool:
    """Whether a comparison is of what `train` gives, as the command line or its file of settings has it."""
    from gatedrnn.cli.tasks import asked

    config = asked("config", tokens)
    return "--recipes" in tokens or (config is not None and _read_config(Path(config)).get("recipes") is True)


def _task_of_file(command: App, tokens: Sequence[str]) -> str | None:
    """The task of the file to train on, where neither the command line nor its file of settings names a task."""
    from gatedrnn.cli.tasks import asked

    config = asked("config", tokens)
    held = {} if config is None else _read_config(Path(config))
    file = asked("train-file", tokens) or held.get("train_file")
    if file is None or asked("task", tokens) or "task" in held or "forecast" in command.name:
        return None
    from gatedrnn.tables.options import DialectOptions
    from gatedrnn.tasks.claims import task_of_file

    def given(name: str) -> Any:
        return asked(name, tokens) or held.get(name.replace("-", "_"))

    skip = given("skip-lines")
    lines = int(skip) if str(skip).isdecimal() else None  # a wrong one is refused with its flag
    dialect = DialectOptions(given("encoding"), given("separator"), lines, "--quoting" in tokens)
    return task_of_file(Path(file), dialect)


def _named_task(command: App, tokens: Sequence[str]) -> str:
    """The task that the command line or its file of settings names, or the command's own."""
    from gatedrnn.cli.tasks import asked, task_of

    config, named = asked("config", tokens), asked("task", tokens)
    if named is None and config is not None:
        named = _read_config(Path(config)).get("task")
    assert command.default_command is not None
    return task_of(command.default_command, named)


def _read_config(path: Path) -> dict[str, Any]:
    """A YAML mapping of settings, without removed ones that were off; the error for another file names it."""
    import yaml

    from gatedrnn.training.settings import REMOVED

    try:
        content = read_yaml(path)
    except yaml.YAMLError as error:
        raise UsageError(f"--config {path}: {reason(error)}") from error
    if not isinstance(content, dict):
        raise UsageError(f"--config {path}: must hold settings as 'name: value' lines")
    settings: dict[str, Any] = {}
    for key, value in content.items():
        name = key.replace("-", "_")
        if name in _ON_COMMAND_LINE:
            raise UsageError(
                f"--config {path}: the key {key!r} has no effect in a file; give --{key} on the command line"
            )
        if name in settings:
            raise UsageError(f"--config {path}: the key {key!r} is there twice, with _ and with -")
        if name not in REMOVED:
            settings[name] = value
        elif value:
            raise UsageError(f"--config {path}: the key {key!r} {REMOVED[name]}")
    return settings


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; ends the process with 0, 1 (failure), 2 (usage) or, at a signal, 128 and its number:
    130 at Ctrl-C, 143 at SIGTERM, 129 at SIGHUP."""
    tokens = typed_tokens = list(sys.argv[1:] if arguments is None else arguments)
    if tokens[:1] == ["describe"] and "--recipe" in tokens:
        tokens = ["--train-file" if token == "--recipe" else token for token in tokens]
    elif len(tokens) > 1 and tokens[0] in _OF_A_FILE and is_table(tokens[1]):
        tokens = [tokens[0], "--train-file", *tokens[1:]]
    for stream in (sys.stdout, sys.stderr):
        show_all(stream)
    goes_on(begins_again)
    try:
        with notices_shown(), ended_by_signals():
            # The flags of a task of a file are those of its class; the command itself is trusted by its parsed flags.
            with trusting(named_on(tokens), trust_code="--trust-code" in tokens):
                app = build_app(tokens)
            app.meta(tokens, exit_on_error=False, print_error=False)
    except (Interrupted, KeyboardInterrupt) as error:
        with set_by_signals():  # who presses twice shall read the sentence too
            _stop(_exit_code(error) or FAILURE, interruption(error))
    except ImportError as error:
        package = _missing_package(error)
        if package is None and not isinstance(error, MissingExtra):
            raise
        _stop(USAGE, in_one_line(error if package is None else missing(package)))
    except UnknownCommandError as error:  # whose own message imports every command
        names = [name for name in build_app() if not name.startswith("-")]
        _stop(USAGE, unknown("command", str((error.unused_tokens or [""])[0]), names))
    except UnknownOptionError as error:
        from gatedrnn.cli.tasks import unknown_flag

        task = _named_task(build_app()[tokens[0]], tokens) if tokens[0] in _OF_TASKS else None
        _stop(USAGE, unknown_flag(error, task) if task else in_one_line(error))
    except Question as error:
        if error.answers and tokens[0] not in (*_OF_TASKS, "describe"):
            answers = " or ".join(map(typed, error.answers))
            _stop(
                error.exit_code,
                f"{error.asked.rstrip('?')}; a model reads a file as its training data: mend the file, or train again "
                f"with {answers}",
            )
        commands = _commands_that_answer(error, typed_tokens) if error.answers else []
        _stop(error.exit_code, "\n".join([in_one_line(error), *commands]))
    except Exception as error:
        code = _exit_code(error)
        if code is None:
            raise
        from gatedrnn.cli.tasks import asked

        ours = any(hasattr(each, "errors") for each in (error, error.__cause__))  # pydantic's, which name no file
        config = asked("config", tokens) if ours else None
        _stop(code, in_one_line(error) + (f" (with --config {config})" if config else ""))


def _commands_that_answer(question: Question, tokens: Sequence[str]) -> list[str]:
    """Lines with the first rows of a table, and with the whole commands that answer a question on it.

    Args:
        tokens: what was typed; flags that the answer gives in another way are left out.
    """
    commands = list[str]()
    kinds = {tuple(answer): answer for answer in reversed(question.answers)}  # the first of each
    for answer in question.answers if len(question.answers) <= _MAX_COMMANDS else reversed(kinds.values()):
        kept, leaves_out = list[str](), False
        for token in tokens:
            if token.startswith("--"):
                leaves_out = token.partition("=")[0][2:].replace("-", "_") in answer
            if not leaves_out:
                kept.append(token)
        commands.append(f"  {shlex.join(['gatedrnn', *kept])} {typed(answer)}")
    return [
        *(f"  {row}" for row in question.rows),
        "answer with" if len(commands) == 1 else "answer with one of",
        *commands,
    ]


_MAX_COMMANDS = 6
"""Commands that are shown for all answers; of more answers, one for each flag."""


def _exit_code(error: BaseException) -> int | None:
    """The exit code of a signal, or of an error that a user can fix; None for a bug."""
    if isinstance(error, (CycloptsError, FileNotFoundError, IsADirectoryError, UnicodeDecodeError)):
        return USAGE
    if isinstance(error, Error):
        return error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return SIGNALLED + (getattr(error, "signal_number", None) or signal.SIGINT)
    # By name, so that nothing heavy is imported only to fail.
    names = {kind.__name__ for kind in type(error).__mro__}
    if names & {"ValidationError", "YAMLError"}:
        return USAGE
    return FAILURE if names & {"BrokenProcessPool", "OSError"} else None


def _missing_package(error: BaseException | None) -> str | None:
    """The package that is not installed, however often its error was wrapped; None if it is another fault."""
    package = None
    while error is not None:
        if isinstance(error, ModuleNotFoundError) and error.name is not None:
            package = error.name.split(".")[0]
        error = error.__cause__ or error.__context__
    return None if package == "gatedrnn" else package


def _stop(code: int, message: str) -> None:
    print(f"gatedrnn: {plain(message)}", file=sys.stderr)
    sys.exit(code)
