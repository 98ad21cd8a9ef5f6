"""The laws of recurrent modules, for everybody's: however the same sequences are fed, the results are the same.

Example:
    >>> import torch
    >>> from gatedrnn.verify import check
    >>> check(torch.nn.LSTM, input_size=3, hidden_size=4).failures
    []
"""

from gatedrnn.laws.errors import LawsBroken as LawsBroken
from gatedrnn.laws.report import Outcome as Outcome
from gatedrnn.laws.report import Report as Report
from gatedrnn.laws.subject import Note as Note
from gatedrnn.laws.subject import Subject as Subject
from gatedrnn.verify.laws import cases as cases
from gatedrnn.verify.laws import check as check
