"""Pictures within pages, as a Sphinx extension. A page says

    ```{picture} lstm 2
    ```

for the LSTM as far as its second stage, in the page's language, with lines in the colour of its text. It carries a
sentence for a reader who does not see it.
"""

from docutils import nodes
from docutils.parsers.rst import Directive

from pictures import picture


class Picture(Directive):
    """A picture in a page."""

    required_arguments, optional_arguments = 1, 1

    def run(self) -> list[nodes.Node]:
        language = self.state.document.settings.env.config.language
        name, stage = self.arguments[0], int(self.arguments[1]) if len(self.arguments) > 1 else 0
        drawn = picture(name, stage, language)
        return [nodes.raw("", f'<figure class="drawn">{drawn}</figure>', format="html")]


def setup(app) -> dict[str, bool]:
    app.add_directive("picture", Picture)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
