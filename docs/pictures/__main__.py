"""`python docs/pictures FOLDER`: see the package."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pictures import write

write(Path(sys.argv[1]))
