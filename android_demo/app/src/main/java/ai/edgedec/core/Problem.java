package ai.edgedec.core;

/** A fault in words for people: what is wrong, and how to mend it. */
public final class Problem extends Exception {
    private static final long serialVersionUID = 1;

    /** How to mend it; may be empty. */
    public final String hint;

    public Problem(String message, String hint) {
        super(message);
        this.hint = hint;
    }

    public Problem(String message) {
        this(message, "");
    }

    /** Both in one text, as a dialog shows them. */
    public String text() {
        return hint.isEmpty() ? getMessage() : getMessage() + " (" + hint + ")";
    }
}
