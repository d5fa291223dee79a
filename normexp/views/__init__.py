"""What is shown of a sweep: tables, texts, figures, the live view."""
