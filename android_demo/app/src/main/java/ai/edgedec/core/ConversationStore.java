package ai.edgedec.core;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;

/** Keeps the conversation in a file, which is the old one or the latest one, never half of one. */
public final class ConversationStore {
    private final File file;

    public ConversationStore(File file) {
        this.file = file;
    }

    public void save(Conversation conversation) throws Problem {
        File next = new File(file.getPath() + ".next");
        try {
            Files.createDirectories(file.getAbsoluteFile().getParentFile().toPath());
            try (FileOutputStream out = new FileOutputStream(next)) {
                out.write(conversation.toJson().getBytes(StandardCharsets.UTF_8));
                out.getFD().sync();
            }
            Files.move(next.toPath(), file.toPath(), StandardCopyOption.ATOMIC_MOVE, StandardCopyOption.REPLACE_EXISTING);
        } catch (IOException error) {
            next.delete();
            throw new Problem("the conversation cannot be saved: " + error.getMessage(), "free some space; it is still on the screen");
        }
    }

    /** The saved conversation; null where there is none. A damaged file is kept aside, and the Problem says so. */
    public Conversation load() throws Problem {
        if (!file.isFile()) return null;
        try {
            return Conversation.fromJson(new String(Files.readAllBytes(file.toPath()), StandardCharsets.UTF_8));
        } catch (Problem | IOException error) {
            File aside = new File(file.getPath() + ".damaged");
            String kept = file.renameTo(aside) ? "it is kept as " + aside.getName() : "it could not be kept";
            throw new Problem("the saved conversation is damaged: " + error.getMessage(), kept);
        }
    }

    public void clear() {
        file.delete();
    }
}
