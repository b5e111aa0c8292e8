"""What people and programs are shown, as pure values: documents in, status and explanations out."""
