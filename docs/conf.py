"""Settings of the documentation (Sphinx); `python docs/build.py` builds it."""

import logging
import os
import sys
from pathlib import Path

from jupyter_client.manager import KernelManager

DOCS = Path(__file__).parent

project = "minigrad"
extensions = [
    "myst_nb",
    "annotate",
    "chapters",
    "claims",
    "files",
    "inline_code",
    "mathml",
    "measuring",
    "reference",
    "touch",
]
sys.path[:0] = [str(DOCS.parent), str(DOCS / "extensions")]

# Pages. Their cells, if they have some, are run while they are built.
root_doc = "index"
source_suffix = {".md": "myst-nb"}
myst_enable_extensions = ["amsmath", "deflist", "dollarmath", "html_image"]
myst_heading_anchors = 3
html_math_renderer = "mathml"
myst_update_mathjax = False

# Cells. An error in a cell fails the build. A cell finds the project and its figures as the pages do.
nb_execution_mode = "force"
nb_execution_raise_on_error = False  # a failed cell is a warning: the build names all of them, and fails at its end
nb_execution_show_tb = True
nb_execution_timeout = 900  # seconds for one cell; much, because the machine may be slow or busy
logging.getLogger("traitlets").setLevel(logging.WARNING)  # no line for every page that is run
# A page's cells run in a process of their own. Newer versions can encrypt what it says to this one, and warn on every
# page if they are not asked to.
if hasattr(KernelManager, "transport_encryption"):
    KernelManager.transport_encryption.default_value = "auto"
nb_merge_streams = True  # what a cell prints is one block, however long it takes
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # would be loaded from elsewhere
os.environ["PYTHONPATH"] = os.pathsep.join([str(DOCS.parent), str(DOCS / "extensions")])
os.environ["MPLBACKEND"] = "module://page_figures"
os.environ["MATPLOTLIBRC"] = str(DOCS / "matplotlibrc")

# Appearance.
html_theme = "furo"
html_title = "minigrad"
pygments_dark_style = "github-dark"
html_static_path = ["static"]
html_css_files = ["course.css"]
html_show_sphinx = False
html_show_copyright = False
html_copy_source = False
