# Stands in for a coding agent: half of the work at first, all of it when it is told what went wrong.
prompt=$(cat)
case "$prompt" in
    *"What went wrong before"*) printf 'Hello, world!\n' > greeting.txt ;;
    *) printf 'Hello, wrold!\n' > greeting.txt ;;
esac
echo "Done. I have checked everything twice."
