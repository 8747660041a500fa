# Makes our comments readable for doxygen: the one at the top of a header describes the file, and one behind a member describes it.
FNR == 1 && /^\/\/ / { in_head = 1; print "/// \\file" }
in_head && /^\/\// { sub(/^\/\//, "///"); print; next }
{ in_head = 0 }
# the continuation of a comment behind a member
/^ +\/\/ / && behind { sub(/\/\/ /, "///< "); print; next }
{ behind = /[;,{}] +\/\/ / }
behind { sub(/ \/\/ /, " ///< ") }
{ print }
