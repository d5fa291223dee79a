"""Check the claims of a text against stored runs, calculations, or the sources it cites."""
