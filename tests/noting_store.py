"""A store in memory that notes what is done with its files."""


class NotingStore:
    """Files by their URIs below a folder, and what was done with them, in order."""

    lists_in_order = False

    def __init__(self, folder):
        self.folder, self.held, self.done = folder, {}, []

    def read(self, uri, start, end):
        self.done.append(("read", uri.removeprefix(f"{self.folder}/")))
        return self.held[uri][start:end]

    def stat(self, uri):
        if uri not in self.held:
            raise FileNotFoundError(uri)
        return len(self.held[uri]), 0

    def list_below(self, folder):
        return ((uri, len(held), 0) for uri, held in [*self.held.items()] if uri.startswith(folder))

    def put(self, uri, file):
        file.seek(0)
        self.done.append(("put", uri.removeprefix(f"{self.folder}/")))
        self.held[uri] = file.read()

    def delete(self, uris):
        for uri in uris:
            self.done.append(("delete", uri.removeprefix(f"{self.folder}/")))
            del self.held[uri]
