"""Translations of labels, and the sentence in the place of each picture."""

KOREAN = {
    "keep": "유지", "write": "쓰기", "show": "출력", "reset": "리셋",
    "no output gate": "출력 게이트 없음", "gates read x alone": "게이트가 x만 읽음",
    "i and f share one whole": "i와 f의 합은 1", "no tanh": "tanh 없음", "no reset gate": "리셋 게이트 없음",
    "steps": "스텝", "round 1": "라운드 1", "round 2": "라운드 2", "round 3": "라운드 3",
    "a text of documents": "문서로 이루어진 텍스트",
    "two lanes, read in windows of 4 steps": "레인 두 개, 4스텝짜리 윈도로 읽기",
    "lane 1": "레인 1", "lane 2": "레인 2", "state": "상태",
    "mask": "마스크", "resets": "리셋", "packed": "패킹",
    "the state stands still at padding; h_n is that of x_3": "패딩에서는 상태가 그대로이며, x_3 뒤의 상태가 곧 h_n",
    "two sequences in one row: the state begins again": "한 줄에 시퀀스 두 개: 상태가 다시 시작",
    "sequences of 4 and 3 steps: step 4 has a batch of one": "4스텝과 3스텝 시퀀스: 스텝 4의 배치는 1",
}  # fmt: skip

DESCRIPTIONS = {
    "lstm 1": {
        "en": "LSTM, the forget gate: the cell state c runs along the top and is multiplied by f, which reads h and x.",
        "ko": "LSTM의 망각 게이트: 셀 상태 c가 위쪽을 따라 흐르고, h와 x를 읽는 f가 곱해집니다.",
    },
    "lstm 2": {
        "en": "LSTM, writing: the candidate g times the input gate i is added to the cell state.",
        "ko": "LSTM의 쓰기: 후보 g와 입력 게이트 i의 곱이 셀 상태에 더해집니다.",
    },
    "lstm 3": {
        "en": "LSTM, showing: h is tanh of the cell state times the output gate o.",
        "ko": "LSTM의 출력: 셀 상태의 tanh에 출력 게이트 o를 곱한 값이 h입니다.",
    },
    "lstm": {
        "en": "LSTM: f keeps, i and g write, o shows; all four read the last h and the input x.",
        "ko": "LSTM: f는 유지하고, i와 g는 쓰고, o는 내보냅니다. 넷 모두 이전 h와 입력 x를 읽습니다.",
    },
    "gru 1": {
        "en": "GRU, the update gate: z keeps the state, and 1 minus z of the candidate n is written.",
        "ko": "GRU의 업데이트 게이트: z만큼 상태를 유지하고, 후보 n을 1에서 z를 뺀 만큼 씁니다.",
    },
    "gru 2": {
        "en": "GRU, the reset gate: r multiplies the state before the candidate reads it.",
        "ko": "GRU의 리셋 게이트: 후보가 상태를 읽기 전에 r이 곱해집니다.",
    },
    "gru": {
        "en": "GRU: z mixes the old state and the candidate n, which reads the state as far as r lets it.",
        "ko": "GRU: z가 이전 상태와 후보 n을 섞고, n은 r이 허락하는 만큼만 상태를 읽습니다.",
    },
    "mgu 1": {
        "en": "MGU: the gate f replaces; 1 minus f of the state is kept, and f of the candidate n is written.",
        "ko": "MGU: 게이트 f가 교체합니다. 상태는 1에서 f를 뺀 만큼 유지되고, 후보 n은 f만큼 쓰입니다.",
    },
    "mgu 2": {
        "en": "MGU: the same gate f also multiplies the state that the candidate reads.",
        "ko": "MGU: 후보가 읽는 상태에도 같은 게이트 f가 곱해집니다.",
    },
    "mgu": {
        "en": "MGU: one gate f is update gate and reset gate in one.",
        "ko": "MGU: 게이트 f 하나가 업데이트 게이트와 리셋 게이트를 겸합니다.",
    },
    "mingru 1": {
        "en": "minGRU, the gate: z reads the input alone, and 1 minus z of the state is kept.",
        "ko": "minGRU의 게이트: z는 입력만 읽고, 상태는 1에서 z를 뺀 만큼 유지됩니다.",
    },
    "mingru 2": {
        "en": "minGRU, writing: the value g v, of the input alone, times z is added.",
        "ko": "minGRU의 쓰기: 입력만으로 정해지는 값 g v에 z를 곱해 더합니다.",
    },
    "mingru": {
        "en": "minGRU: gate z and value v read the input x alone; no line leads from the state to them.",
        "ko": "minGRU: 게이트 z와 값 v는 입력 x만 읽습니다. 상태에서 이들로 가는 선이 없습니다.",
    },
    "minlstm 1": {
        "en": "minLSTM, the gates: f and i read the input alone, divided by their sum; f's share keeps.",
        "ko": "minLSTM의 게이트: f와 i는 입력만 읽고 둘의 합으로 나누어집니다. f의 몫만큼 상태를 유지합니다.",
    },
    "minlstm 2": {
        "en": "minLSTM, writing: the value g v times i's share is added.",
        "ko": "minLSTM의 쓰기: 값 g v에 i의 몫을 곱해 더합니다.",
    },
    "minlstm": {
        "en": "minLSTM: f and i, of the input alone, share one whole; f's share keeps, i's share writes.",
        "ko": "minLSTM: 입력만 읽는 f와 i가 1을 나누어 가집니다. f의 몫은 유지하고 i의 몫은 씁니다.",
    },
    "ladder-lstm": {
        "en": "From LSTM to MinLSTM: the output gate goes, gates read x alone, i and f share one whole, tanh goes.",
        "ko": "LSTM에서 MinLSTM까지의 단계: 출력 게이트 제거, 게이트가 x만 읽음, i와 f의 합은 1, tanh 제거.",
    },
    "ladder-gru": {
        "en": "From GRU to MinGRU: the reset gate goes, gates read x alone, tanh goes.",
        "ko": "GRU에서 MinGRU까지의 단계: 리셋 게이트 제거, 게이트가 x만 읽음, tanh 제거.",
    },
    "scan": {
        "en": "Eight pairs of decay and drive in three rounds: each joins the one 1, then 2, then 4 steps before.",
        "ko": "감쇠 계수와 입력 항 여덟 쌍이 세 라운드에 걸쳐 1, 2, 4스텝 앞의 쌍과 차례로 결합합니다.",
    },
    "lanes": {
        "en": "A text of three documents in two lanes; windows follow each other, and the state goes with them.",
        "ko": "문서 세 개로 된 텍스트를 레인 두 개로 자릅니다. 윈도가 차례로 이어지고 상태도 함께 이어집니다.",
    },
    "cuts": {
        "en": "A mask holds the state at padding, a reset begins it anew, a packed sequence shrinks the batch.",
        "ko": "마스크는 패딩에서 상태를 멈추고, 리셋은 상태를 다시 시작하며, 패킹한 시퀀스는 배치를 점점 줄입니다.",
    },
}
