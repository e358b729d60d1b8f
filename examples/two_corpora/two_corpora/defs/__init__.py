"""What the project defines: each folder is one part of it."""
