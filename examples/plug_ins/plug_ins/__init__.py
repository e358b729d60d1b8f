"""What a team plugs in: a chunker, an extractor, a model's provider, an embedding, and the service that uses them."""
