package ai.edgedec.core;

import java.io.IOException;

/** A fault of the line that a transfer comes over, after which it is worth trying again. */
public final class LineBroken extends IOException {
    private static final long serialVersionUID = 1;

    public LineBroken(String why) {
        super(why);
    }
}
