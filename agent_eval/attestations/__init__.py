"""Statements about a run, signed so that other tools can check them: in-toto, DSSE, Sigstore bundles."""
