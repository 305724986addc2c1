package ai.edgedec.app;

/** Hears, on the main thread, that something changed. */
interface Watcher {
    void changed();

    /** A fault for a dialog. */
    void failed(String text);

    /** A reply is complete. */
    void replied(String text);

    /** A question that got no reply goes back to where it was typed. */
    void returned(String question);
}
