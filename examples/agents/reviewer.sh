# Stands in for an agent that reviews: its prompt is its first argument.
printf '%s\n' "$1" | head -n 1
printf 'Reviewed: %s\n' "$(cat greeting.txt)" > review.md
