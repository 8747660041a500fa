// Empty: CMake needs a source file to compile the headers for.
