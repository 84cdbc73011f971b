"""`python -m flexkg` is the `flexkg` command."""

from flexkg.cli.main import main

main()
