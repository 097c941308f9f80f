#!/usr/bin/env bash
echo "hello, this is greet $(cat "$(dirname "$0")/VERSION")"
