"""The UI on this machine: `python -m ragspine_assets.defs.ui` starts what `dagster dev` starts, with a guarded server.

Belongs here: the web server with the layer of `own_pages` in front of it, and the start of server, daemon and code server
together, which is Dagster's own (https://docs.dagster.io/deployment/oss). Both take one name of Dagster's and wrap it; a
Dagster without that name does not start unguarded, it does not start.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import cast

from dagster_shared.ipc import open_ipc_subprocess

from ragspine_assets.config import SETTINGS, ServiceConfig

from .history import history_folder, make_private
from .own_pages import App, Origin, OwnPagesOnly, parse_origins

_SERVER = "dagster_webserver"
_HERE = "ragspine_assets.defs.ui"
_SERVE = "--serve"


def main(arguments: Sequence[str] | None = None) -> int:
    """Start the UI and return when it ends; 2 when a setting is wrong."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == [_SERVE]:
        _serve(given[1:])
        return 0
    parser = argparse.ArgumentParser(prog=f"python -m {_HERE}", description=main.__doc__)
    parser.add_argument("--port", default="3000", help="port of this machine's loopback address")
    port = parser.parse_args(given).port
    try:
        ui_origins()
    except ValueError as error:
        print(f"A setting is wrong: {error}", file=sys.stderr)
        return 2
    folder = history_folder()
    if folder is not None:
        make_private(folder)
    _start(port)
    return 0


def ui_origins() -> tuple[Origin, ...]:
    """Return the origins under which a proxy shows the UI, as the environment says.

    Raises:
        ValueError: one of them is no address; the message says what is allowed.
    """
    said = ServiceConfig.from_environment().ui_origins
    try:
        return parse_origins(said)
    except ValueError:
        raise SETTINGS["ui_origins"].wrong(said) from None


def _start(port: str) -> None:
    """Run Dagster's `dev` with our module where it starts its web server."""
    from dagster._cli import dev

    start = _taken(dev, "open_ipc_subprocess")
    if start is not open_ipc_subprocess:
        raise RuntimeError("this Dagster starts its web server in another way, and would start it unguarded")

    def guarded(command: Sequence[str], **options: object) -> object:
        if _SERVER in command:
            at = list(command).index(_SERVER)
            command = [*command[:at], _HERE, _SERVE, *command[at + 1 :]]
        return start(command, **options)

    setattr(dev, start.__name__, guarded)
    dev.dev_command(["--host", "127.0.0.1", "--port", port], standalone_mode=False)


def _serve(arguments: Sequence[str]) -> None:
    """Run Dagster's web server with the layer in front of it."""
    from dagster_webserver import cli

    make = _taken(cli, "create_app_from_workspace_process_context")
    also = ui_origins()

    def guarded(*given: object, **named: object) -> App:
        return OwnPagesOnly(cast("App", make(*given, **named)), also)

    setattr(cli, make.__name__, guarded)
    cli.cli(list(arguments), auto_envvar_prefix="DAGSTER_WEBSERVER")


def _taken(module: ModuleType, name: str) -> Callable[..., object]:
    return getattr(module, name)


if __name__ == "__main__":
    sys.exit(main())
