package silf.jojo.config;

/** A configuration that cannot be used: where, what is wrong with it, what to write instead (spec/jojo, configuration). */
public final class ConfigException extends Exception {
    private static final long serialVersionUID = 1;

    private final transient Place place;

    public ConfigException(Place place, String what) {
        super(place + ": " + what);
        this.place = place;
    }

    /** Null after serialisation; the message has it too. */
    public Place place() {
        return place;
    }
}
