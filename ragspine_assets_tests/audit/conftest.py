"""What is proved here was made by the rooms before: their fixtures."""

from ragspine_assets_tests.graph.conftest import *  # noqa: F403
from ragspine_assets_tests.serving.conftest import *  # noqa: F403
