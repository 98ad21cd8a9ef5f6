"""Slides of the numbers, "which cell when", in two languages: `PYTHONPATH=. python docs/slides.py FOLDER`.

A number is read from the records under results/ and formatted once for both languages. What a text claims in words is
in the last argument of its slide, as a condition on the same records.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

from deck import Chart, Mark, Slide, Words, joined, same, write
from measured import (
    DROP_IN,
    LAYERS,
    PEERS,
    PROBES,
    TRAINING,
    Probed,
    articles,
    bar,
    bench,
    comparison,
    contender,
    difference,
    folded,
    folds,
    kept_run,
    kind,
    machine,
    on_both,
    percentage,
    perplexity_over,
    plain,
    plain_name,
    plain_scores,
    probed,
    probes,
    ratio,
    rounded,
    seeds,
    share,
    span,
    times,
    trained,
    training_rows,
)

from gatedrnn.kinds.torch.path import MAX_STEPS_WITH_GRADIENTS, MAX_STEPS_WITHOUT
from gatedrnn.pages import plural
from gatedrnn.study.probe_summary import HOLDS

NAME = "which-cell"
EQUAL_WIDTH = Words("equal width", "같은 은닉 크기")
CHARTS_OF_ONE = Words(
    "Charts are of the processor that is named below.", "차트는 아래에 적은 프로세서에서 잰 값입니다."
)
THREADS = (2, 1)
"""Numbers of threads of the kept benchmarks."""
CHANCE = 0.02
"""A scaled accuracy up to this is one of guessing."""


def short_texts() -> Slide:
    results = comparison("ag_news")
    lstm, mingru, wide = (results.contender(name) for name in ("lstm", "mingru-layers", "mingru-params"))
    linear, width = results.best_plain().name, lstm.structure.hidden_size
    speed = {name: spread.median for name, spread in results.measured.speed.items()}
    faster, slower = (speed[row.name] / speed[lstm.name] for row in (mingru, wide))
    fit, training = results.measured.plain_seconds[linear], results.training_seconds(mingru)
    gap, pairs = difference(results, mingru.name, lstm.name), len(results.pairs)
    labels = {
        "lstm": same("`lstm`"), "gru-layers": same("`gru`"), "minlstm-layers": same("`minlstm`"),
        "mingru-layers": same("`mingru`"),
        "mingru-params": Words(f"`mingru`, width {wide.structure.hidden_size}",
                               f"`mingru`, 은닉 크기 {wide.structure.hidden_size}"),
    }  # fmt: skip
    return Slide(
        "short-texts",
        need=Words("fast training, short texts", "짧은 텍스트의 빠른 학습"),
        take=same("`mingru`"),
        cost=Words(
            "with equal parameters it trains more slowly than `lstm`",
            "파라미터 수를 맞추면 `lstm`보다 학습이 느립니다",
        ),
        reason=Words(
            f"AG News: {faster:.1f} times the tokens/s of `lstm` with equal width, no difference in accuracy shown",
            f"AG News: 같은 은닉 크기에서 토큰/초가 `lstm`의 {faster:.1f}배, 정확도 차이는 확인되지 않음",
        ),
        charts=[
            Chart(
                Words("test accuracy", "테스트 정확도"),
                [
                    *(contender(results, name, label, name == mingru.name) for name, label in labels.items()),
                    plain(results, linear),
                ],
            ),
            Chart(
                Words("training speed, tokens/s", "학습 속도, 토큰/초"),
                [bar(label, speed[name], rounded(speed[name]), name == mingru.name) for name, label in labels.items()],
                bars=True,
            ),
        ],
        limits=[
            Words(
                f"Not shown to be equal either: `mingru` differs from `lstm` by {gap}, which decides nothing once all "
                f"{pairs} pairs are corrected for.",
                f"같다고 확인된 것도 아닙니다. `mingru`와 `lstm`의 차이는 {gap}이며, {pairs}개 쌍을 모두 고려하여 "
                "보정하면 결론을 내릴 수 없습니다.",
            ),
            Words(
                f"With equal core parameters `mingru` is slower: {slower:.2f} times the speed of `lstm`.",
                f"순환부 파라미터 수를 같게 하면 `mingru`가 더 느립니다. 속도가 `lstm`의 {slower:.2f}배입니다.",
            ),
            Words(
                f"No cell is shown to be better than the linear classifier, fitted in {fit:.1f} s (`mingru`: "
                f"{training:.1f} s).",
                f"선형 분류기보다 낫다고 확인된 셀은 없습니다. 선형 분류기의 학습은 {fit:.1f}초, `mingru`는 "
                f"{training:.1f}초가 걸립니다.",
            ),
        ],
        settings=joined(
            Words(
                f"{training_rows(results)} training rows, {results.data.examples['test']:,} test rows",
                f"학습 예제 {training_rows(results)}개, 테스트 예제 {results.data.examples['test']:,}개",
            ),
            seeds(len(lstm.runs)),
            Words(
                f"width {width}, or cores matched to {lstm.parameters.core:,} parameters",
                f"은닉 크기 {width}, 또는 순환부 파라미터를 {lstm.parameters.core:,}개로 맞춤",
            ),
            machine(results.measured.environment, results.settings.threads),
        ),
        records=["ag_news"],
        holds=slower < 1 < faster
        and results.pair(mingru.name, lstm.name).verdict == "cannot tell"
        and all(results.pair(row.name, linear).verdict != "better" for row in results.contenders),
    )


def long_sequences() -> Slide:
    record, peers, family = bench(LAYERS[0]), bench(PEERS), bench("bench/family")
    shapes = sorted(record.settings.sizes.layers, key=lambda shape: shape[1])
    batch, steps, width = shapes[-1]
    others = {"nn.LSTM": "`nn.LSTM`", "minGRU-pytorch minGRU": "minGRU-pytorch", "nn.GRU": "`nn.GRU`"}
    slower = {
        name: ratio(
            *((record, "layers") if name.startswith("nn.") else (peers, "peers")), TRAINING, name, "mingru", shapes[-1]
        )
        for name in others
    }
    lstm, gru = (span(on_both("layers", name, "mingru", shapes[-1])) for name in ("nn.LSTM", "nn.GRU"))
    by_shape = {shape: ratio(record, "layers", TRAINING, "nn.LSTM", "mingru", shape) for shape in shapes}
    range_lstm, range_gru = (
        span(each for shape in shapes for each in on_both("layers", name, "mingru", shape))
        for name in ("nn.LSTM", "nn.GRU")
    )
    sizes = {c.contender: f"{c.value:,.0f}" for c in family.counts if c.mode == "parameters of a layer"}
    return Slide(
        "long-sequences",
        need=Words("long sequences on a CPU", "CPU에서 긴 시퀀스"),
        take=same("`mingru`"),
        cost=Words(
            "nothing that flips or turns with the input can be tracked",
            "입력에 따라 뒤집히거나 회전하는 상태는 추적하지 못합니다",
        ),
        reason=Words(
            f"forward and backward, batch {batch}, {steps:,} steps, width {width}, two processors: {gru.en} times as "
            f"fast as `nn.GRU`, {lstm.en} times as fast as `nn.LSTM` (over {len(shapes)} shapes {range_gru.en} and "
            f"{range_lstm.en})",
            f"순전파와 역전파, 배치 {batch}, {steps:,}스텝, 은닉 크기 {width}, 프로세서 두 가지: "
            f"`nn.GRU`보다 {gru.ko}배, `nn.LSTM`보다 {lstm.ko}배 빠름(모양 {len(shapes)}가지에서 {range_gru.ko}배, "
            f"{range_lstm.ko}배)",
        ),
        charts=[
            Chart(
                Words(
                    f"time over that of `mingru`, batch {batch}, {steps:,} steps",
                    f"`mingru` 대비 시간, 배치 {batch}, {steps:,}스텝",
                ),
                [
                    bar(same("`mingru`"), 1, "1", taken=True),
                    *(bar(same(label), slower[name], times(slower[name])) for name, label in others.items()),
                ],
                bars=True,
            ),
            Chart(
                Words(
                    "time of `nn.LSTM` over `mingru`, batch × steps × width",
                    "`mingru` 대비 `nn.LSTM`의 시간, 배치 × 스텝 × 은닉 크기",
                ),
                [bar(same(f"{b} × {t:,} × {h}"), found, times(found)) for (b, t, h), found in by_shape.items()],
                bars=True,
            ),
        ],
        limits=[
            Words(
                f"Equal width is not equal size: at {width} a layer has {sizes['mingru']} parameters as `mingru` and "
                f"{sizes['lstm']} as `lstm`.",
                f"은닉 크기가 같아도 파라미터 수는 다릅니다. 은닉 크기 {width}인 층의 파라미터는 `mingru`가 "
                f"{sizes['mingru']}개, `lstm`이 {sizes['lstm']}개입니다.",
            ),
            Words(
                "This is a layer alone: in a model, embedding, head and optimiser take their own time.",
                "층 하나만 잰 값입니다. 모델에서는 임베딩, 출력층, 옵티마이저의 시간이 더해집니다.",
            ),
            Words("No GPU was measured.", "GPU에서는 측정하지 않았습니다."),
            CHARTS_OF_ONE,
        ],
        settings=joined(
            Words("forward and backward, float32, no data", "순전파와 역전파, float32, 데이터 없음"),
            EQUAL_WIDTH,
            machine(record.measured.environment, record.measured.threads),
        ),
        records=[*LAYERS, PEERS, "bench/family"],
        holds=min(slower.values()) > 1 and record.measured.gpu is None,
        picture="mingru",
    )


def word_language_model() -> Slide:
    labels = {
        "origin": Words("`lstm`, not tuned", "`lstm`, 조정 안 함"),
        "lstm": same("`lstm`"),
        "minlstm": Words("blocks of `minlstm`", "`minlstm` 블록"),
        "mingru": Words("blocks of `mingru`", "`mingru` 블록"),
    }
    runs = {name: kept_run(f"wikitext-2/{name}") for name in labels}
    perplexity = {name: run.result.score("test", "perplexity") for name, run in runs.items()}
    over = {name: perplexity_over(f"wikitext-2/{name}", "wikitext-2/lstm") for name in ("minlstm", "mingru")}
    lstm, mingru = runs["lstm"], runs["mingru"]
    classic, blocks = (f"{perplexity[name]:.2f}" for name in ("lstm", "mingru"))
    few = seeds(len({run.result.seed for run in runs.values()}))
    return Slide(
        "word-language-model",
        need=Words("a word language model", "단어 단위 언어 모델"),
        take=Words("blocks of `mingru`", "`mingru` 블록"),
        cost=Words("the parameters of the blocks, on top of the core", "순환부 밖에 블록의 파라미터가 더 듭니다"),
        reason=Words(
            f"WikiText-2: perplexity {blocks}, `lstm` {classic} (equal cores, {few.en})",
            f"WikiText-2: 퍼플렉시티 {blocks}, `lstm`은 {classic}(순환부 크기 동일, {few.ko})",
        ),
        charts=[
            Chart(
                Words("test perplexity, lower is better", "테스트 퍼플렉시티, 낮을수록 좋음"),
                [
                    Mark(label, same(f"{perplexity[name]:.2f}"), perplexity[name], kind=kind(name == "mingru"))
                    for name, label in labels.items()
                ],
            ),
            Chart(
                Words("difference in test perplexity to `lstm`, %", "`lstm`과의 테스트 퍼플렉시티 차이, %"),
                [
                    Mark(labels["lstm"], same("0"), 0),
                    *(percentage(labels[name], part, name == "mingru") for name, part in over.items()),
                ],
            ),
        ],
        limits=[
            Words(
                f"{few.en}: intervals are over the {articles('wikitext-2/lstm')} articles of the test text, not over "
                "seeds.",
                f"{few.ko}: 신뢰구간은 테스트 텍스트의 글 {articles('wikitext-2/lstm')}편에 대한 것이며, 다른 시드는 "
                "반영하지 않습니다.",
            ),
            Words(
                "`lstm` has no blocks around it: what the cell contributes is not separated from what the block does.",
                "`lstm`은 블록 없이 실행했습니다. 셀의 효과와 블록의 효과는 구분되지 않습니다.",
            ),
            Words(
                "The blocks add parameters outside the equal cores: projections and feed-forward networks.",
                "블록에는 크기를 맞춘 순환부 말고도 투영과 피드포워드 신경망의 파라미터가 더 있습니다.",
            ),
        ],
        settings=joined(
            Words(
                f"{lstm.tokens['train']} training and {lstm.tokens['test']} test tokens",
                f"학습 {lstm.tokens['train']}토큰, 테스트 {lstm.tokens['test']}토큰",
            ),
            Words(f"{lstm.settings.train.epochs} epochs", f"{lstm.settings.train.epochs}에폭"),
            Words(
                f"equal cores: {lstm.settings.model.layers} layers of {lstm.result.hidden_size} for `lstm`, "
                f"{mingru.settings.model.layers} blocks of {mingru.result.hidden_size} for `mingru`",
                f"순환부 크기 동일: `lstm`은 {lstm.settings.model.layers}층, 은닉 크기 {lstm.result.hidden_size}, "
                f"`mingru`는 블록 {mingru.settings.model.layers}개, 은닉 크기 {mingru.result.hidden_size}",
            ),
            machine(lstm.machine, lstm.result.measured.threads),
        ),
        records=["wikitext-2"],
        holds=over["mingru"].mean < 0 and mingru.settings.model.block and not lstm.settings.model.block,
    )


def character_language_model() -> Slide:
    runs = {name: kept_run(f"tiny-shakespeare/{name}") for name in ("lstm", "minlstm", "mingru")}
    family, timed = comparison("tiny-shakespeare-family"), comparison("tiny-shakespeare-time")
    loss = {name: run.result.score("validation", "loss") for name, run in runs.items()}
    classic, minimal = (f"{loss[name]:.3f}" for name in ("lstm", "mingru"))
    ngram, minutes = family.best_plain().name, timed.settings.contenders.train_minutes
    with_time = {name: timed.contender(name).scores["test"].mean for name in ("lstm", "mingru-time")}
    with_time[ngram] = plain_scores(timed, ngram).scores["test"].mean
    lstm_time, mingru_time, ngram_time = (f"{value:.2f}" for value in with_time.values())
    worse = difference(family, "mingru-params", "lstm")
    lstm, later = runs["lstm"], family.settings.train["epochs"]
    widths = ", ".join(f"{run.result.hidden_size}" for run in runs.values())
    few, more, alone = (
        seeds(len(found))
        for found in (
            {run.result.seed for run in runs.values()},
            family.settings.contenders.seeds,
            timed.settings.contenders.seeds,
        )
    )
    return Slide(
        "character-language-model",
        need=Words("a character language model", "글자 단위 언어 모델"),
        take=same("`lstm`"),
        cost=Words("steps run one after another", "스텝을 하나씩 차례로 계산합니다"),
        reason=Words(
            f"Tiny Shakespeare: {classic} nats, `mingru` {minimal} (equal parameters, {few.en})",
            f"Tiny Shakespeare: {classic} nat, `mingru`는 {minimal}(파라미터 수 동일, {few.ko})",
        ),
        charts=[
            Chart(
                Words(
                    f"validation loss in nats, {lstm.settings.train.epochs} epochs, {few.en}",
                    f"검증 손실(nat), {lstm.settings.train.epochs}에폭, {few.ko}",
                ),
                [
                    Mark(same(f"`{name}`"), same(f"{value:.3f}"), value, kind=kind(name == "lstm"))
                    for name, value in loss.items()
                ],
            ),
            Chart(
                Words(f"test perplexity, {later} epochs, {more.en}", f"테스트 퍼플렉시티, {later}에폭, {more.ko}"),
                [
                    contender(family, "lstm", taken=True),
                    *(contender(family, f"{name}-params") for name in ("gru", "minlstm", "mingru")),
                    plain(family, ngram),
                ],
            ),
        ],
        limits=[
            Words(
                f"The first chart has {few.en} and the validation text alone.",
                f"첫 번째 그림은 {few.ko}로, 검증 텍스트에서만 잰 값입니다.",
            ),
            Words(
                f"In the second one `mingru` is worse than `lstm`, {worse}; no cell reaches the {ngram}.",
                f"두 번째 그림에서 `mingru`는 `lstm`보다 퍼플렉시티가 높고(차이 {worse}), {ngram}만큼 좋은 셀은 "
                "없습니다.",
            ),
            Words(
                f"With {minutes:.0f} minutes of training each, {alone.en}, `lstm` reaches perplexity {lstm_time}, the "
                f"n-gram {ngram_time}, `mingru` {mingru_time}.",
                f"{minutes:.0f}분씩 학습하면({alone.ko}) 퍼플렉시티는 `lstm` {lstm_time}, n-gram {ngram_time}, "
                f"`mingru` {mingru_time}입니다.",
            ),
        ],
        settings=joined(
            Words(f"{lstm.tokens['train']} training characters", f"학습 {lstm.tokens['train']}자"),
            Words(
                f"{lstm.settings.model.layers} blocks (second chart: {family.settings.model['layers']})",
                f"블록 {lstm.settings.model.layers}개(두 번째 그림은 {family.settings.model['layers']}개)",
            ),
            Words(f"equal parameters, widths {widths}", f"파라미터 수 동일, 은닉 크기 {widths}"),
            machine(lstm.machine, lstm.result.measured.threads),
        ),
        records=["tiny-shakespeare", "tiny-shakespeare-family", "tiny-shakespeare-time"],
        holds=loss["lstm"] == min(loss.values())
        and family.pair("mingru-params", "lstm").verdict == "worse"
        and all(family.pair(row.name, ngram).verdict == "worse" for row in family.contenders),
    )


def forecasts() -> Slide:
    m4, ett = comparison("m4-hourly"), comparison("etth1-96")
    trees, linear = "gradient boosting on lags", "DLinear"
    mingru, boosted = m4.contender("mingru").scores["test"].mean, plain_scores(m4, trees).scores["test"].mean
    squared = {row.name: [run.score("test", "scaled_mse") for run in row.runs] for row in ett.contenders}
    squared |= {name: [plain_scores(ett, name).further["test"].scaled_mse or 0.0] for name in (trees, linear)}
    error = {name: mean(errors) for name, errors in squared.items()}
    shown = {name: f"{value:.3f}" for name, value in error.items()}
    to_linear, to_trees = (difference(ett, "mingru-layers", name) for name in (linear, trees))
    series = m4.data.examples["test"]
    deep, flat = (results.contenders[0].structure for results in (m4, ett))
    far, near = (results.settings.data["horizon"] for results in (ett, m4))
    return Slide(
        "forecasts",
        need=Words("forecasts of hundreds of series", "수백 개 시계열의 예측"),
        take=same("`mingru`"),
        cost=Words("a training, where naive methods need none", "나이브 방법에는 필요 없는 학습이 듭니다"),
        reason=Words(
            f"M4 hourly, {series} series: MASE of `mingru` {mingru:.3f}, boosted trees {boosted:.3f}; ETTh1, seven "
            f"series: MSE of `mingru` {shown['mingru-layers']}, boosted trees {shown[trees]}",
            f"M4 hourly, 시계열 {series}개: `mingru`의 MASE {mingru:.3f}, 부스팅 트리 {boosted:.3f}. ETTh1, 시계열 "
            f"일곱 개: `mingru`의 MSE {shown['mingru-layers']}, 부스팅 트리 {shown[trees]}",
        ),
        charts=[
            Chart(
                Words("M4 hourly: MASE, lower is better", "M4 hourly: MASE, 낮을수록 좋음"),
                [
                    contender(m4, "mingru", taken=True),
                    contender(m4, "minlstm-layers"),
                    *(plain(m4, name) for name in (trees, linear, "seasonal naive of 24")),
                ],
            ),
            Chart(
                Words("ETTh1: MSE, lower is better", "ETTh1: MSE, 낮을수록 좋음"),
                [
                    *(
                        Mark(
                            same(f"`{row.cell}`"),
                            same(shown[row.name]),
                            error[row.name],
                            None,
                            squared[row.name],
                            kind(row.name == "mingru-layers"),
                        )
                        for row in sorted(ett.contenders, key=lambda row: error[row.name])
                    ),
                    *(Mark(plain_name(name), same(shown[name]), error[name], kind="plain") for name in (trees, linear)),
                ],
            ),
        ],
        limits=[
            Words(
                f"ETTh1 by MASE: `mingru` is distinguished neither from DLinear, {to_linear}, nor from the boosted "
                f"trees, {to_trees}.",
                f"ETTh1의 MASE: `mingru`는 DLinear(차이 {to_linear})와도 부스팅 트리(차이 {to_trees})와도 구별되지 "
                "않습니다.",
            ),
            Words(
                "The recipe on ETTh1 was chosen for an earlier form of the model, without smoothers.",
                "ETTh1의 학습 설정은 지수평활이 없던 이전 모델에서 고른 것입니다.",
            ),
            Words(
                "M4 hourly was run with `mingru` and `minlstm` alone, which are not distinguished.",
                "M4 hourly는 `mingru`와 `minlstm`만 실행했고, 둘은 구별되지 않습니다.",
            ),
        ],
        settings=joined(
            Words(
                f"M4 hourly: {series} series, {near} steps ahead, {deep.layers} layers of {deep.hidden_size}",
                f"M4 hourly: 시계열 {series}개, {near}스텝 예측, {deep.layers}층, 은닉 크기 {deep.hidden_size}",
            ),
            Words(
                f"ETTh1: {far} steps ahead, {plural(flat.layers, 'layer')} of {flat.hidden_size}",
                f"ETTh1: {far}스텝 예측, {flat.layers}층, 은닉 크기 {flat.hidden_size}",
            ),
            seeds(len(m4.settings.contenders.seeds)),
            EQUAL_WIDTH,
            machine(m4.measured.environment, m4.settings.threads),
        ),
        records=["m4-hourly", "etth1-96"],
        holds=all(m4.pair("mingru", other.name).verdict == "better" for other in m4.baseline.plain)
        and m4.pair("mingru", "minlstm-layers").verdict == "cannot tell"
        and len(m4.contenders) == 2
        and all(ett.pair("mingru-layers", name).verdict == "cannot tell" for name in (linear, trees)),
    )


def faster_gru() -> Slide:
    record, drop_in = bench(LAYERS[0]), [bench(name) for name in DROP_IN]
    width, sizes = record.settings.sizes.length_width, record.settings.sizes.loops
    long = {shape: ratio(record, "loops", TRAINING, "nn.GRU", "gru", shape) for shape in sizes}
    lstm = [each for shape in sizes for each in on_both("loops", "lstm", "nn.LSTM", shape)]
    by_processor = [
        [found for found in kept.ratios if (found.numerator, found.denominator) == ("gru", "nn.GRU")]
        for kept in drop_in
    ]
    ours, every = by_processor[0], [found for kept in by_processor for found in kept]
    gains = [1 / found.ratio for found in every if found.mode.startswith(TRAINING)]
    steps = [1 / found.ratio for found in every if found.mode.startswith("one step")]
    (b0, t0, _), (b1, t1, _) = ends = min(long, key=long.get), max(long, key=long.get)
    slowest, fastest = (span(on_both("loops", "nn.GRU", "gru", shape)) for shape in ends)

    def chart(threads: int) -> Chart:
        mode = f"{TRAINING}, {plural(threads, 'thread')}"
        found = {
            quotient.shape: 1 / quotient.ratio
            for quotient in ours
            if quotient.mode == mode and quotient.shape[2] == width
        }
        if threads == record.measured.threads:
            found = long | found
        return Chart(
            Words(
                f"times as fast as `nn.GRU`, {plural(threads, 'thread')}, by batch × steps",
                f"`nn.GRU` 대비 속도(배), 스레드 {threads}개, 배치 × 스텝",
            ),
            [bar(same(f"{b} × {t}"), gain, times(gain), (b, t, h) in long) for (b, t, h), gain in found.items()],
            bars=True,
        )

    return Slide(
        "faster-gru",
        need=Words("`nn.GRU` itself, faster on a CPU", "CPU에서 더 빠른 `nn.GRU`"),
        take=same("`gru`"),
        cost=Words("none: values and state dict are torch's", "없음: 값과 state dict가 torch와 같습니다"),
        reason=Words(
            f"forward and backward, width {width}, two processors: {slowest.en} times as fast as `nn.GRU` at "
            f"batch {b0} of {t0} steps, {fastest.en} times at batch {b1} of {t1}, with its state dict; up to "
            f"{MAX_STEPS_WITH_GRADIENTS} steps ({MAX_STEPS_WITHOUT} without gradients) torch's own kernel runs it",
            f"순전파와 역전파, 은닉 크기 {width}, 프로세서 두 가지: 배치 {b0}, {t0}스텝에서 "
            f"`nn.GRU`보다 {slowest.ko}배, 배치 {b1}, {t1}스텝에서 {fastest.ko}배 빠름, state dict 호환. "
            f"{MAX_STEPS_WITH_GRADIENTS}스텝(기울기가 없으면 {MAX_STEPS_WITHOUT}스텝)까지는 torch의 커널로 실행",
        ),
        charts=[chart(threads) for threads in THREADS],
        limits=[
            Words(
                f"The title is about the shapes in bold. Over all {len(gains)} measurements of shapes, threads and "
                f"processors it is {min(gains):.2f} to {max(gains):.0f} times.",
                f"제목은 굵게 표시한 모양에서 잰 값입니다. 모양, 스레드 수, 프로세서의 조합 {len(gains)}개 전체에서는 "
                f"{min(gains):.2f}~{max(gains):.0f}배입니다.",
            ),
            Words(
                f"One step at a time gains little or nothing: {min(steps):.2f} to {max(steps):.2f} times.",
                f"한 스텝씩 실행하면 이득이 작거나 없습니다. {min(steps):.2f}~{max(steps):.2f}배입니다.",
            ),
            Words(
                f"There is no such gain for `lstm`: {min(lstm):.2f} to {max(lstm):.2f} of the time of `nn.LSTM`.",
                f"`lstm`에는 이런 이득이 없습니다. 시간이 `nn.LSTM`의 {min(lstm):.2f}~{max(lstm):.2f}배입니다.",
            ),
        ],
        settings=joined(
            Words("forward and backward, float32, no data", "순전파와 역전파, float32, 데이터 없음"),
            Words(f"width {width}, the same weights", f"은닉 크기 {width}, 같은 가중치"),
            machine(record.measured.environment, record.measured.threads),
        ),
        records=[*LAYERS, *DROP_IN],
        holds=min(*gains, *long.values()) > 1 and {shape[2] for shape in long} == {width},
    )


def parity() -> Slide:
    probe, million = probed("parity"), probed("parity", ["probes/million"])
    taken = probe.exact("signed-mingru")
    lstm, gru, rotating = (probe.exact(cell) for cell in ("lstm", "gru", "block-orthogonal"))
    guessed = [abs(value) for length in probe.first.labels for value in probe.at("mingru", length)]
    return Slide(
        "parity",
        need=Words("a state that flips (parity)", "부호가 뒤집히는 상태(패리티)"),
        take=same("`signed-mingru`"),
        cost=Words(
            "no group in which order matters, no `gaps`",
            "순서가 중요한 군은 다루지 못하고 `gaps`를 받지 않습니다",
        ),
        reason=Words(
            f"no error in {probe.tested.en}, in {taken.en} seeds; `mingru` stays at chance",
            f"시드 {taken.ko}가 {probe.tested.ko}에서 오류 없음, `mingru`는 무작위 수준",
        ),
        charts=[probe.chart("signed-mingru"), million.chart("signed-mingru")],
        limits=[
            Words(
                f"The loop cells learn parity too, one step after another: `lstm` is exact in {lstm.en} seeds, `gru` "
                f"in {gru.en}, the scan cell `block-orthogonal` in {rotating.en}.",
                f"루프 셀도 한 스텝씩 실행하며 패리티를 학습합니다. 오류가 없는 시드는 `lstm`이 {lstm.ko}, `gru`가 "
                f"{gru.ko}, 스캔 셀인 `block-orthogonal`이 {rotating.ko}입니다.",
            ),
            Words(
                "A probe asks for one ability: it says nothing about texts or series.",
                "프로브는 능력 하나만 확인합니다. 텍스트나 시계열에 대해서는 알려 주지 않습니다.",
            ),
        ],
        settings=probe.settings(trained(probe.first.trained_at)),
        records=[*PROBES, "probes/million"],
        holds=min(probe.at("signed-mingru", probe.longest)) == 1 and max(guessed) < CHANCE,
    )


def order_matters() -> Slide:
    probe, family = probed("s3"), bench("bench/family")
    (shape,) = {row.shape for row in family.timings}
    speed = {cell: results_of_cell.tokens_per_second for cell, results_of_cell in probe.first.cells.items()}
    taken, lstm, gru = (probe.exact(cell) for cell in ("block-orthogonal", "lstm", "gru"))
    least = min(probe.at("block-orthogonal", probe.longest))
    slower = speed["block-orthogonal"] / speed["lstm"]
    layer = ratio(family, "family", TRAINING, "block-orthogonal", "nn.LSTM", shape)
    return Slide(
        "order-matters",
        need=Words("a state where order matters (S3)", "순서가 중요한 상태(S3)"),
        take=same("`block-orthogonal`"),
        cost=Words(
            "small errors of angles add up over tens of thousands of steps",
            "수만 스텝에 걸쳐 각도의 작은 오차가 쌓입니다",
        ),
        reason=Words(
            f"no error in {probe.tested.en}, in {taken.en} seeds, {least:.3f} in the other, in parallel over time",
            f"시드 {taken.ko}가 {probe.tested.ko}에서 오류 없음(나머지 하나는 {least:.3f}), 시간 축 병렬 실행",
        ),
        charts=[
            probe.chart("block-orthogonal"),
            Chart(
                Words("training speed in this probe, tokens/s", "이 프로브의 학습 속도, 토큰/초"),
                [
                    bar(same(f"`{cell}`"), value, rounded(value), cell == "block-orthogonal")
                    for cell, value in speed.items()
                ],
                bars=True,
            ),
        ],
        limits=[
            Words(
                f"The loop cells learn S3 too, one step after another: `lstm` is exact in {lstm.en} seeds, `gru` in "
                f"{gru.en}.",
                f"루프 셀도 한 스텝씩 실행하며 S3를 학습합니다. 오류가 없는 시드는 `lstm`이 {lstm.ko}, `gru`가 "
                f"{gru.ko}입니다.",
            ),
            Words(
                f"On these short training sequences parallel is not faster: {slower:.2f} times the speed of `lstm`. At "
                f"{shape[1]:,} steps and equal width a layer takes {layer:.2f} of the time of `nn.LSTM`.",
                f"이 짧은 학습 시퀀스에서는 병렬 실행이 더 빠르지 않습니다. 속도가 `lstm`의 {slower:.2f}배입니다. "
                f"{shape[1]:,}스텝, 같은 은닉 크기에서는 층 하나의 시간이 `nn.LSTM`의 {layer:.2f}배입니다.",
            ),
        ],
        settings=probe.settings(trained(probe.first.trained_at)),
        records=[*PROBES, "bench/family"],
        holds=0.999 < least < 1 and slower < 1,
    )


def recall() -> Slide:
    suite, pairs, copying = probes(PROBES[0]), probed("mqar"), probed("selective-copying")
    short, longer, far = pairs.first.trained_at, copying.first.trained_at, pairs.longest
    scans = [cell for cell, transition in suite.classes.items() if transition.name != "state-dependent"]
    best = max(scans, key=lambda cell: mean(pairs.at(cell, short)))
    lstm, gru, scan = (pairs.average(cell, short) for cell in ("lstm", "gru", best))
    mingru, poor = (copying.average(cell, longer) for cell in ("mingru", "lstm"))
    near, lstm_far, signed_far = (
        pairs.average(cell, steps) for cell, steps in (("signed-mingru", short), ("lstm", far), ("signed-mingru", far))
    )
    learned = share([value >= HOLDS for value in copying.at("mingru", longer)])
    count = len(copying.at("mingru", longer))

    def chart(probe: Probed, title: Words, taken: Sequence[str]) -> Chart:
        steps = probe.first.trained_at
        values = {cell: probe.at(cell, steps) for cell in probe.first.cells}
        return Chart(title, [
            Mark(same(f"`{cell}`"), same(probe.average(cell, steps)), mean(scores), None, scores, kind(cell in taken))
            for cell, scores in values.items()
        ])  # fmt: skip

    return Slide(
        "recall",
        need=Words("associative recall", "연상 회상"),
        take=same("`lstm`, `gru`"),
        cost=Words(
            "steps run one after another, and little is left beyond the training length",
            "스텝을 하나씩 차례로 계산하며, 학습 길이를 넘으면 거의 남지 않습니다",
        ),
        reason=Words(
            f"{lstm} and {gru} at the training length, the best scan cell {scan}; on selective copying `mingru` "
            f"{mingru}, `lstm` {poor}",
            f"학습 길이에서 {lstm}과 {gru}, 스캔 셀은 최고 {scan}. 선택적 복사에서는 `mingru` {mingru}, `lstm` {poor}",
        ),
        charts=[
            chart(
                pairs,
                Words(f"associative recall, {short} steps: scaled accuracy", f"연상 회상, {short}스텝: 정규화 정확도"),
                ("lstm", "gru"),
            ),
            chart(
                copying,
                Words(
                    f"selective copying, {longer} steps: scaled accuracy", f"선택적 복사, {longer}스텝: 정규화 정확도"
                ),
                ("mingru",),
            ),
        ],
        limits=[
            Words(
                f"The title has the means of {count} seeds; `mingru` reaches {HOLDS} on copying in {learned.en} seeds.",
                f"제목의 값은 시드 {count}개의 평균입니다. 복사에서 `mingru`가 {HOLDS} 이상인 시드는 "
                f"{learned.ko}입니다.",
            ),
            Words(
                f"Recall does not last: at {far:,} steps `lstm` has {lstm_far}, `signed-mingru` {signed_far} "
                f"({near} at the training length).",
                f"회상은 오래 유지되지 않습니다. {far:,}스텝에서 `lstm`은 {lstm_far}이고, `signed-mingru`는 "
                f"{signed_far}입니다(학습 길이에서는 {near}).",
            ),
        ],
        settings=pairs.settings(
            Words(
                f"recall trained at up to {short} steps, copying {longer}",
                f"회상은 {short}스텝, 복사는 {longer}스텝까지 학습",
            )
        ),
        records=PROBES,
        holds=min(pairs.at("lstm", short) + pairs.at("gru", short))
        > max(value for cell in scans for value in pairs.at(cell, short))
        and max(copying.first.cells, key=lambda cell: mean(copying.at(cell, longer))) == "mingru"
        and all(mean(pairs.at(cell, far)) < HOLDS for cell in pairs.first.cells),
    )


def baselines() -> Slide:
    ag_news, arrow, spoken = comparison("ag_news"), comparison("series/arrowhead"), comparison("spoken-digits")
    trees, rocket, linear = "gradient boosting on summary features", "MiniRocket + ridge", ag_news.best_plain().name
    area = folds("physionet")
    forest, network = area[trees], area["gru-d"]
    ahead = share([score > other for score, other in zip(forest.folds, network.folds, strict=True)])
    best, gru = plain_scores(arrow, rocket).scores["test"].mean, arrow.contender("gru").scores["test"].mean
    speech = Words("spoken digits", "음성 숫자")
    counts = ", ".join(f"{len(results.contenders[0].runs)}" for results in (arrow, ag_news, spoken))

    def of(data: Words, name: str) -> Words:
        return joined(data, plain_name(name), by=": ")

    return Slide(
        "baselines",
        need=Words("to know whether a network pays off", "신경망이 유리한지 확인"),
        take=Words("a plain baseline first", "단순한 베이스라인부터"),
        cost=Words("no state that follows a stream", "스트림을 따라가는 상태가 없습니다"),
        reason=Words(
            f"PhysioNet: AUROC of boosted trees {forest.mean:.3f}, `gru-d` {network.mean:.3f}; ArrowHead: accuracy of "
            f"MiniRocket {best:.3f}, `gru` {gru:.3f}",
            f"PhysioNet: 부스팅 트리의 AUROC {forest.mean:.3f}, `gru-d` {network.mean:.3f}. ArrowHead: MiniRocket의 "
            f"정확도 {best:.3f}, `gru` {gru:.3f}",
        ),
        charts=[
            Chart(
                Words("a baseline is ahead: AUROC, accuracy", "베이스라인이 앞섬: AUROC, 정확도"),
                [
                    folded(forest, of(same("PhysioNet"), trees), "plain"),
                    folded(network, same("PhysioNet: `gru-d`"), "cell"),
                    folded(area["mingru-layers"], same("PhysioNet: `mingru`"), "cell"),
                    plain(arrow, rocket, of(same("ArrowHead"), rocket)),
                    contender(arrow, "gru", same("ArrowHead: `gru`")),
                ],
            ),
            Chart(
                Words("no difference is shown: accuracy", "차이가 확인되지 않음: 정확도"),
                [
                    plain(ag_news, linear, of(same("AG News"), linear)),
                    contender(ag_news, "lstm", same("AG News: `lstm`")),
                    plain(spoken, rocket, of(speech, rocket)),
                    contender(spoken, "gru", joined(speech, same("`gru`"), by=": ")),
                ],
            ),
        ],
        limits=[
            Words(
                f"PhysioNet, series with uneven times: the trees are ahead in {ahead.en} folds, drawn as rings.",
                f"시간 간격이 불규칙한 PhysioNet에서는 폴드 {ahead.ko}에서 트리가 앞섭니다(작은 원은 폴드).",
            ),
            Words(
                f"ArrowHead has {arrow.data.sources[0].rows} training series: this says little about larger sets.",
                f"ArrowHead의 학습 시계열은 {arrow.data.sources[0].rows}개입니다. 더 큰 데이터에 대해서는 알 수 "
                "없습니다.",
            ),
            Words(
                "A baseline is not always ahead: see the slide on forecasts.",
                "베이스라인이 언제나 앞서는 것은 아닙니다. 시계열 예측 슬라이드를 보십시오.",
            ),
        ],
        settings=joined(
            Words(
                f"test rows: ArrowHead {arrow.data.examples['test']}, AG News {ag_news.data.examples['test']:,}, "
                f"spoken digits {spoken.data.examples['test']}",
                f"테스트 예제: ArrowHead {arrow.data.examples['test']}, AG News {ag_news.data.examples['test']:,}, "
                f"음성 숫자 {spoken.data.examples['test']}",
            ),
            Words(
                f"{len(forest.folds)} folds of PhysioNet; seeds of the others: {counts}",
                f"PhysioNet의 폴드 {len(forest.folds)}개, 나머지의 시드 수: {counts}",
            ),
            Words("nothing is timed", "시간은 재지 않음"),
        ),
        records=["physionet", "series/arrowhead", "ag_news", "spoken-digits"],
        holds=network.mean < forest.low
        and arrow.pair("gru", rocket).verdict == "worse"
        and ag_news.pair("lstm", linear).verdict == spoken.pair("gru", rocket).verdict == "cannot tell",
    )


def slides() -> list[Slide]:
    """The slides in the order of the table "Which cell when" of the README, and what a baseline does."""
    return [
        short_texts(), long_sequences(), word_language_model(), character_language_model(), forecasts(), faster_gru(),
        parity(), order_matters(), recall(), baselines(),
    ]  # fmt: skip


if __name__ == "__main__":
    write(Path(sys.argv[1]), NAME, slides())
