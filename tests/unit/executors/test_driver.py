"""The driver of runs in workers: what is lost is submitted again, what has no memory runs alone, nothing is lost."""

from pathlib import Path
from unittest.mock import Mock

import pytest
from refusals import refused
from train_helpers import digits_settings

from gatedrnn import errors
from gatedrnn.errors import OutOfMemory, WorkerLost
from gatedrnn.executors import HERE, Workers, executor_for, work, workers
from gatedrnn.executors.work import Report
from gatedrnn.locks import sole_writer

RUNS = {f"{cell}/seed-0": digits_settings(cell, total_steps=2) for cell in ("gru", "mingru", "minlstm")}


class Scripted(Mock):
    """An engine that works in this process, one task when it is asked; `script` has what comes of a run's turns."""

    on, jobs = "scripted", 2

    def start(self, tasks):
        self.handed += [task.name for task in tasks]
        return [Mock(task=task) for task in tasks]

    def wait(self, jobs, seconds):
        self.together.append(len(jobs))
        return [next(iter(jobs))] if jobs else []

    def report(self, job):
        left = self.script.get(job.task.name, [])
        fault = left.pop(0) if left else None
        if isinstance(fault, WorkerLost):
            raise fault
        return Report(fault, 0.0, 0.0) if fault else work.work(job.task)


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    return HERE.run_all(RUNS, tmp_path_factory.mktemp("here"), lambda *_: None).records


def run_all(folder, **script):
    script, seen = {f"{cell}/seed-0": faults for cell, faults in script.items()}, []
    engine = Scripted(script=script, handed=[], together=[])
    with sole_writer(folder):
        ended = Workers(engine).run_all(RUNS, folder, lambda *told: seen.append(told))
    return engine, ended, seen


def scores(records):
    return {name: (record.steps, record.scores) for name, record in records.items()}


def test_workers_find_what_one_process_finds(here, tmp_path):
    engine, ended, seen = run_all(tmp_path)
    assert scores(ended.records) == scores(here) and list(ended.records) == list(RUNS) and not ended.diverged
    assert max(engine.together) == engine.jobs
    assert [told[2] for told in seen if told[0] and told[1] is None] == [1, 2, 3] and seen[-1][3] == 3
    assert ended.records["gru/seed-0"].measured.processor


def test_a_lost_worker_is_replaced_as_often_as_is_said_and_no_more(here, tmp_path, caplog):
    lost = [WorkerLost("killed") for _ in range(workers._LOST_AT_MOST)]
    engine, ended, _ = run_all(tmp_path / "enough", mingru=[errors.Interrupted("asked to end", 15), *lost[1:]])
    assert engine.handed.count("mingru/seed-0") == workers._LOST_AT_MOST + 1
    assert scores(ended.records) == scores(here) and f"of {workers._LOST_AT_MOST} times" in caplog.text
    refused(WorkerLost, "mingru/seed-0: killed", run_all, tmp_path / "too often", mingru=[*lost, WorkerLost("killed")])
    finished = {path.parent.parent.name for path in (tmp_path / "too often").glob("*/seed-0/result.json")}
    assert finished == {"gru", "minlstm"}, "the others have not ended"


def test_a_run_without_memory_is_run_once_more_alone_and_then_named(here, tmp_path):
    full = OutOfMemory("gru/seed-0: out of memory on node-7")
    engine, ended, _ = run_all(tmp_path / "once", gru=[full])
    assert scores(ended.records) == scores(here)
    assert engine.handed[-1] == "gru/seed-0" and engine.together[-1] == 1, "it did not run alone"
    refused(OutOfMemory, "out of memory on node-7", run_all, tmp_path / "twice", gru=[full, full])
    assert len(list((tmp_path / "twice").glob("*/*/result.json"))) == 2


def test_a_loss_that_is_no_number_ends_its_own_run_alone_and_any_other_error_the_rest_until_resumed(here, tmp_path):
    _, ended, _ = run_all(tmp_path / "diverged", gru=[errors.NonFiniteLoss("the loss is nan")])
    assert list(ended.records) == ["mingru/seed-0", "minlstm/seed-0"] and len(ended.diverged) == 1
    refused(errors.DataError, "no such file", run_all, tmp_path, mingru=[errors.DataError("data.csv: no such file")])
    engine, ended, _ = run_all(tmp_path)
    assert scores(ended.records) == scores(here) and "gru/seed-0" not in engine.handed


def test_a_worker_that_is_not_like_the_driver_says_so(tmp_path):
    task = work.task_of("gru/seed-0", RUNS["gru/seed-0"], tmp_path)
    for change, said in (
        ({"versions": {"python": "3.11", "gatedrnn": "0.0.1", "torch": "1.0"}}, "install the same version"),
        ({"lock": "4711 2020-01-01 00:00\n"}, "does not see the driver's folder"),
        ({"place": Path("/nowhere")}, "does not see /nowhere"),
    ):
        report = work.work(task._replace(**{"lock": "", **change}))
        assert isinstance(report.fault, errors.WorkerDiffers) and said in str(report.fault)
    assert not (tmp_path / "gru").exists()


def test_relative_paths_begin_where_the_driver_runs_and_a_lack_of_memory_names_its_host(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    task = work.task_of("gru/seed-0", RUNS["gru/seed-0"], Path("study"))
    monkeypatch.chdir("/")
    assert work.work(task).fault is None
    assert Path.cwd() == tmp_path and (tmp_path / "study" / "gru" / "seed-0" / "result.json").exists()
    full = "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"
    monkeypatch.setattr(work, "run", Mock(side_effect=RuntimeError(full)))
    fault = work.work(task).fault
    assert isinstance(fault, OutOfMemory) and "gru/seed-0: out of memory on" in str(fault)


def test_places_by_name_and_one_that_is_not_known_or_there_is_missed_before_anything_is_computed(monkeypatch):
    for word in ("cluster", "local:80", "local,threads=2", "slurm:host", "ray,num_gpus", "ray,=1", ""):
        refused(errors.UsageError, "--on", executor_for, word)
    with monkeypatch.context() as patch:
        patch.setattr("shutil.which", lambda name: name)
        patch.setattr("socket.create_connection", lambda *_: Mock())
        for word, jobs, on in (
            ("local", None, "local"), ("local", 3, "local"), ("slurm", None, "slurm"), ("ray", 2, "ray"),
            ("ray:10.0.0.1:6379,num_gpus=1", None, "ray:10.0.0.1:6379"), ("slurm,slurm_partition=long", 9, "slurm"),
        ):  # fmt: skip
            executor = executor_for(word, jobs)
            assert executor.on == on and executor.jobs == (jobs or (1 if on == "local" else None)), word
    monkeypatch.setattr("shutil.which", lambda name: None)
    for word, said in (("ray:127.0.0.1:1", "no cluster can be reached"), ("slurm", "no sbatch on this machine")):
        refused(errors.NoCluster, f"--on {word}: .*{said}", executor_for, word)
