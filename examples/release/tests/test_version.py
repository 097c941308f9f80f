import os
import unittest

from greet import version


class Version(unittest.TestCase):
    def test_the_package_says_which_version_it_is(self) -> None:
        self.assertEqual(version(), os.environ["VERSION"])


if __name__ == "__main__":
    unittest.main()
