"""The laws of recurrent modules, for everybody's: however the same sequences are fed, the results are the same.

Example:
    >>> import torch
    >>> from gatedrnn.verify import check
    >>> check(torch.nn.LSTM, input_size=3, hidden_size=4).failures
    []
"""

from gatedrnn.errors import LawsBroken as LawsBroken
from gatedrnn.verify.asking import cases as cases
from gatedrnn.verify.asking import check as check
from gatedrnn.verify.outcome import Outcome as Outcome
from gatedrnn.verify.outcome import Report as Report
from gatedrnn.verify.subject import Note as Note
from gatedrnn.verify.subject import Subject as Subject
