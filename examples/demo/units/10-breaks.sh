# Fails half way.
printf 'half a page' > wiki/global/broken.md
echo "the upstream API answered 503" >&2
exit 3
