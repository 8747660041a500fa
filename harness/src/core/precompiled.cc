// Nothing of its own: CMake needs a file to compile the headers for.
