#!/bin/sh
# Is the greeting right?
expected="Hello, world!"
found=$(sh hello.sh)
if [ "$found" = "$expected" ]; then
    echo "the greeting is right"
else
    echo "expected: $expected"
    echo "found:    $found"
    exit 1
fi
