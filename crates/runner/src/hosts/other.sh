# On another host of an MPI program than the first (spec/jobs/mpi.md, N23), as a guest: it runs what the launcher has it run.
meeting=$1 number=$2 own=$3 first=$4
mkdir -p "$meeting" || exit 125
# MPICH's UCX uses the networks that it finds listed here, as links.
while read -r name rest; do
    case $name in
    *:*) ln -s . "/sys/class/net/${name%%:*}" 2>/dev/null ;;
    esac
done </proc/net/dev
place=$meeting/$number
# Which of our addresses leads to the first host, and which of its own leads there.
echo "$own $first" >"$place.new" && mv "$place.new" "$place.here" || exit 125
until [ -e "$place.run" ]; do
    sleep 0.05
done
sh "$place.run" >"$place.log" 2>&1
status=$?
if [ "$status" != 0 ]; then
    {
        echo "kumiko: host $number ($own) ended with $status"
        cat "$place.log"
    } >"$place.new"
    mv "$place.new" "$place.failed"
fi
echo "$status" >"$place.new" && mv "$place.new" "$place.ended"
exit "$status"
