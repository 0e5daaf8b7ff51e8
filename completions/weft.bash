# bash completion for weft(1): the program itself knows what may come next.

_weft() {
    local IFS=$'\n'
    # shellcheck disable=SC2207 # candidates are single words, a line each
    COMPREPLY=($("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}

# Where weft has nothing to offer, as after -f, files are.
complete -o default -F _weft weft
