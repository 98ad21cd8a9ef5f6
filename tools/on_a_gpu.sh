#!/bin/sh
# What needs a GPU, in at most eight minutes: the tests of its kernels, the seconds of a first call, and the benchmark of
# scans and layers beside the device's own copy. Writes results/gpu/NAME.json with device, versions and commit.
#
#     tools/on_a_gpu.sh NAME            on a GPU, in an environment with the extra dev and triton
#     tools/on_a_gpu.sh NAME --dry-run  on a CPU: tests by Triton's interpreter, the rest at sizes that take no time
#
# Ends with 1 if a test fails, a result is wrong or a part does not end in its time; the record names the part.
set -u
name=${1:?a name for the record is missing}
cd "$(dirname "$0")/.." || exit 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ "${2:-}" = --dry-run ]; then
    device=cpu record=$work/$name.json only="narrow_numbers or tanh_keeps" sizes="--seconds 0.1 --shapes 2x6x4"
    export TRITON_INTERPRET=1
else
    device=cuda record=results/gpu/$name.json only="" sizes="--seconds 60"
    if ! python -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; then
        echo "on_a_gpu: this torch sees no CUDA device; --dry-run runs on a CPU" >&2
        exit 2
    fi
fi

run_part() { # NAME SECONDS COMMAND...: keeps the exit code, 124 for one that did not end in time
    part=$1 limit=$2
    shift 2
    echo "$part, at most $limit s"
    timeout "$limit" "$@" >"$work/$part.log" 2>&1
    code=$?
    echo "$code" >"$work/$part.code"
    tail -n 4 "$work/$part.log"
}

export PYTHONPATH=.${PYTHONPATH:+:$PYTHONPATH}
# 470 seconds in all, and the writing.
run_part tests 200 python -m pytest -q -p no:cacheprovider -m '' -k "$only" --junitxml "$work/tests.xml" tests/unit/kernels/gpu
run_part first_calls 90 python tools/gpu_record.py first-calls $device "$work/first_calls.json"
# shellcheck disable=SC2086
run_part bench 180 python -m benchmarks --device $device --only scan layers $sizes --output "$work"
python tools/gpu_record.py write $device "$work" "$record"
failed=$?
if [ "$device" = cpu ]; then cat "$record"; fi
exit $failed
