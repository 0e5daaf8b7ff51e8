"""Certificates for weftd's TCP port."""

import subprocess


def make_certificate(folder):
    """A key and a self-signed certificate for localhost, made now in that folder."""
    template = folder / "template"
    template.write_text('cn = "localhost"\ndns_name = "localhost"\nip_address = "127.0.0.1"\ntls_www_server\nca\nsigning_key\n'
                        "expiration_days = 2\n", encoding="utf-8")
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    for command in (["--generate-privkey", "--key-type", "ecdsa", "--outfile", key],
                    ["--generate-self-signed", "--load-privkey", key, "--template", template, "--outfile", certificate]):
        subprocess.run(["certtool", "--no-text", *command], check=True, capture_output=True)
    return {"key": str(key), "certificate": str(certificate)}
