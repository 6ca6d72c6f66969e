"""TLS costs nothing where there is none: neither time at the start nor memory."""

import subprocess
import sys

LOADED = """
import sys
import penstock.cli.serve
import penstock.node.connections
print([name for name in ("penstock.world.tls", "penstock.node.tls", "cryptography")
       if name in sys.modules])
"""


def test_serve_and_the_links_of_a_cluster_do_not_import_tls() -> None:
    outcome = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, timeout=120
    )
    assert outcome.stdout.strip() == "[]", outcome.stderr


def test_files_in_pem_do_not_import_cryptography() -> None:
    asked = "import sys; import penstock.node.tls; print('cryptography' in sys.modules)"
    outcome = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, text=True, timeout=120
    )
    assert outcome.stdout.strip() == "False", outcome.stderr
