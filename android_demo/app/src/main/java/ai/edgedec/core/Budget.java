package ai.edgedec.core;

/** The memory that a model may take on a phone, and whether a model fits. */
public final class Budget {
    /** How a model runs within a budget. */
    public enum Fit {
        WHOLE,
        /** With less: a shorter context, or experts that have no place are read from storage. */
        REDUCED,
        NOT
    }

    /** The part of a phone's memory that is a model's where nobody names a number. Android and other apps have the rest. */
    private static final int PART = 2;

    private Budget() {}

    /** Bytes that the process may take. {@code chosen}: as the user said, 0 for nothing; {@code total}: of the phone. */
    public static long of(long chosen, long total) {
        return chosen > 0 ? chosen : total / PART;
    }

    /** {@code whole}: bytes that a model takes; {@code least}: the smallest budget in which it opens. */
    public static Fit fit(long budget, long whole, long least) {
        return whole <= budget ? Fit.WHOLE : least <= budget ? Fit.REDUCED : Fit.NOT;
    }
}
