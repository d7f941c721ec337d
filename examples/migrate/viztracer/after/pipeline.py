"""A pipeline that makes thumbnails of pictures, each of which it blurs and shrinks."""

import random

import vor

SIZE = 24


def load(number):
    random.seed(number)
    return [[random.randrange(256) for _ in range(SIZE)] for _ in range(SIZE)]


def blur(picture):
    def mean(row, column):
        near = [picture[r % SIZE][c % SIZE] for r in (row - 1, row) for c in (column - 1, column)]
        return sum(near) // len(near)

    return [[mean(row, column) for column in range(SIZE)] for row in range(SIZE)]


class Album:
    def __init__(self):
        self.thumbnails = []

    def add(self, picture):
        self.thumbnails.append([row[::4] for row in picture[::4]])


def main():
    album = Album()
    for number in range(12):
        with vor.scope("picture"):
            picture = load(number)
            for _ in range(1 + number % 3):
                picture = blur(picture)
            album.add(picture)
        vor.record_metric("album pictures", len(album.thumbnails))
        if number == 5:
            vor.message("half way")
        vor.frame_mark()
    print(f"{len(album.thumbnails)} thumbnails")


if __name__ == "__main__":
    main()
