"""`a2a-bridge serve`: the standalone host, served in the foreground until a signal ends it."""

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from a2a_bridge import config

ConfigFile = Annotated[
    Path | None, typer.Option("--config", help="Configuration file.", show_default="~/.omp/agent/a2a-bridge.json")
]


class Mode(StrEnum):
    """Which calls ask the owner where no rule says so."""

    YOLO = "yolo"
    WRITE = "write"
    ALWAYS_ASK = "always-ask"


def file(given: Path | None) -> Path:
    """The configuration file that a command means. Raises ConfigError."""
    return config.expanded(given, "--config") if given is not None else config.config_path(os.environ)


def serve(
    config_file: ConfigFile = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on, instead of the configured one.")] = None,
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="TCP port, instead of the configured one; 0 takes any.")
    ] = None,
    deny: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Deny this tool too; may be given several times.")
    ] = None,
    deny_mcp_tools: Annotated[bool, typer.Option("--deny-mcp-tools", help="Deny tools named mcp__… too.")] = False,
    approval_mode: Annotated[
        Mode | None,
        typer.Option(help="Which calls ask you where no rule says so, instead of the configured mode."),
    ] = None,
    cwd: Annotated[
        Path | None, typer.Option(help="Where the tools start from.", show_default="the current directory")
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Log lines, one a call, on a terminal too; elsewhere they are the default.")
    ] = False,
) -> None:
    """Serve this machine's files and shell until Ctrl-C."""
    from a2a_bridge.cli.serve_loop import serve_local  # the server's imports, which no other command should pay for

    settings = config.load(file(config_file))
    settings = msgspec.structs.replace(
        settings,
        host=settings.host if host is None else host,
        port=settings.port if port is None else port,
        deny=(*settings.deny, *(deny or ())),
        deny_mcp_tools=settings.deny_mcp_tools or deny_mcp_tools,
        approval_mode=settings.approval_mode if approval_mode is None else approval_mode.value,
    )
    on_screen = not plain and sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    serve_local(settings, config.expanded(cwd or Path(), "--cwd"), on_screen)
