package ai.edgedec.core;

import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;

/** SHA-256. */
public final class Hash {
    private Hash() {}

    public static MessageDigest sha256() {
        try {
            return MessageDigest.getInstance("SHA-256");
        } catch (NoSuchAlgorithmException error) {
            throw new IllegalStateException(error); // every Java has it
        }
    }

    public static String hex(byte[] digest) {
        StringBuilder out = new StringBuilder();
        for (byte one : digest) out.append(Character.forDigit(one >> 4 & 15, 16)).append(Character.forDigit(one & 15, 16));
        return out.toString();
    }

    public static String of(byte[] data) {
        return hex(sha256().digest(data));
    }

    /** Feeds a file to a digest. */
    public static void feed(MessageDigest digest, File file, Progress progress) throws IOException {
        byte[] chunk = new byte[1 << 18];
        try (InputStream in = new FileInputStream(file)) {
            for (int got; (got = in.read(chunk)) >= 0;) {
                digest.update(chunk, 0, got);
                if (progress.moved(got)) return;
            }
        }
    }
}
