package ai.edgedec.core;

/** Hears how far a long work is, and may end it. */
public interface Progress {
    /** Tells of further bytes; true: end now. */
    boolean moved(long bytes);

    Progress NONE = bytes -> false;
}
