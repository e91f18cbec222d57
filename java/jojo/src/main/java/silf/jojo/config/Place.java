package silf.jojo.config;

/** Where something stands in a configuration file; lines and columns count from 1, columns in characters. */
public record Place(String file, int line, int column) {
    @Override
    public String toString() {
        return file + ":" + line + ":" + column;
    }
}
