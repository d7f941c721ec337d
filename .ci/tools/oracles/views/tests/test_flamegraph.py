from .case import ViewCase


def box(name, ns, y):
    share = f"{name} ({ns:,} samples, 10.00%)"
    return f'<g><title>{share}</title><rect x="0.0%" y="{y}" width="1%" height="15"/></g>\n'


BOXES = [
    ("all", 3_000_000, 229), ("main", 1_000_000, 213), ("worker", 2_000_000, 213),
    ("outer", 1_000_000, 197), ("inner", 500_000, 181), ("walk", 2_000_000, 197),
    ("walk", 500_000, 181),
]


class FlameGraph(ViewCase):
    def draw(self, boxes):
        return self.write("flame.svg", "<svg>" + "".join(box(*one) for one in boxes) + "</svg>")

    def test_accepts_what_was_recorded(self):
        self.assert_accepts("flamegraph", self.draw(BOXES))

    def test_rejects_each_box_that_is_missing_or_has_another_time(self):
        for index, (name, ns, y) in enumerate(BOXES):
            with self.subTest(name):
                others = BOXES[:index] + BOXES[index + 1 :]
                self.assert_rejects("flame graph: (", "flamegraph", self.draw(others))
                changed = [*others, (name, ns - 1, y)]
                self.assert_rejects("flame graph: (", "flamegraph", self.draw(changed))

    def test_rejects_a_box_at_another_level(self):
        boxes = [*BOXES[:4], ("inner", 500_000, 197), *BOXES[5:]]
        self.assert_rejects("'inner'", "flamegraph", self.draw(boxes))

    def test_rejects_a_picture_without_boxes(self):
        self.assert_rejects("no boxes", "flamegraph", self.draw([]))
