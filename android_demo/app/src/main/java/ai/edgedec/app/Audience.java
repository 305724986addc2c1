package ai.edgedec.app;

/** The screen that watches, or none: then a fault and a question wait for the next one. Used on the main thread. */
final class Audience {
    private Watcher watcher;
    private String lateFault;
    private String lateQuestion;

    void watch(Watcher next) {
        watcher = next;
        if (next == null) return;
        String fault = lateFault;
        String question = lateQuestion;
        lateFault = lateQuestion = null;
        if (fault != null) next.failed(fault);
        if (question != null) next.returned(question);
    }

    void changed() {
        if (watcher != null) watcher.changed();
    }

    void failed(String text) {
        if (watcher != null) watcher.failed(text);
        else lateFault = text;
    }

    void replied(String text) {
        if (watcher != null) watcher.replied(text);
    }

    void returned(String question) {
        if (watcher != null) watcher.returned(question);
        else lateQuestion = question;
    }
}
