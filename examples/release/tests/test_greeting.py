import unittest

from greet import greeting


class Greeting(unittest.TestCase):
    def test_names_are_greeted_as_they_are_written(self) -> None:
        self.assertEqual(greeting("ada L."), "Hello, ada L.!")


if __name__ == "__main__":
    unittest.main()
