package ai.edgedec.core;

import java.io.File;
import java.io.FilterInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.HttpURLConnection;
import java.net.MalformedURLException;
import java.net.URL;
import java.nio.charset.StandardCharsets;

/**
 * Fetches a model by the address of its folder. A transfer that broke off goes on where it was (HTTP ranges), and every
 * file is compared with the hash in the list. An address may end in {@code #sha256=...}, the hash of device.json itself:
 * then nothing can be exchanged on the way, even without https.
 */
public final class Downloader {
    private static final int TRIES = 5;
    private static final int TIMEOUT_MS = 20_000;
    private static final String HASH = "#sha256=";

    private final URL base;
    private final String expected;
    private final Progress progress;
    private final long pauseMs;
    private long gained; // bytes that are further than those of earlier attempts

    /** {@code pauseMs}: how long to wait after a first fault; twice as long after each further one. */
    public Downloader(String address, Progress progress, long pauseMs) throws Problem {
        String given = address.trim();
        int mark = given.indexOf(HASH);
        expected = mark < 0 ? null : given.substring(mark + HASH.length()).toLowerCase(java.util.Locale.ROOT);
        base = folder(mark < 0 ? given : given.substring(0, mark));
        this.progress = progress;
        this.pauseMs = pauseMs;
    }

    /** Fetches the model into the store; returns its folder. {@code started} hears of the list before the files come. */
    public File into(BundleStore store, java.util.function.Consumer<FileList> started) throws Problem {
        String name = FileList.DEVICE;
        String text = list(name, expected == null);
        if (text == null) text = list(name = FileList.MANIFEST, false);
        if (expected != null && !Hash.of(text.getBytes(StandardCharsets.UTF_8)).equals(expected))
            throw new Problem(name + " is not the one that the address names by its hash", "compare the address with the sender's");
        FileList list = FileList.parse(name, text);
        started.accept(list);
        for (int attempt = 1;; ++attempt) {
            gained = 0;
            try {
                return store.take(list, name, text, this::open, progress);
            } catch (LineBroken broken) {
                // Progress in between makes the count begin again: a long file over a bad line arrives in the end.
                if (gained > 1 << 20) attempt = 1;
                if (attempt >= TRIES) throw new Problem(broken.getMessage(), "check the connection and try again: it goes on where it was");
                rest(attempt);
            }
        }
    }

    private static URL folder(String address) throws Problem {
        try {
            URL url = new URL(address.endsWith("/") ? address : address + "/");
            if (!url.getProtocol().equals("https") && !url.getProtocol().equals("http"))
                throw new Problem("an address begins with https:// or http://");
            return url;
        } catch (MalformedURLException error) {
            throw new Problem("'" + address + "' is no address", "it looks like https://example.org/models/smollm2-135m/");
        }
    }

    /** The text of a list; null where there is none and it may be left out. */
    private String list(String name, boolean optional) throws Problem {
        for (int attempt = 1;; ++attempt) {
            try (InputStream in = open(name, 0)) {
                return BundleStore.readList(in, name);
            } catch (Missing missing) {
                if (optional) return null;
                throw new Problem("there is no model at " + base, "the address is that of the folder with " + FileList.DEVICE);
            } catch (IOException error) {
                String why = error instanceof LineBroken ? error.getMessage() : unreachable(error);
                if (attempt >= TRIES) throw new Problem(why, "check the connection and the address");
                rest(attempt);
            }
        }
    }

    private InputStream open(String name, long from) throws IOException, Problem {
        try {
            HttpURLConnection connection = (HttpURLConnection) new URL(base, name).openConnection();
            connection.setConnectTimeout(TIMEOUT_MS);
            connection.setReadTimeout(TIMEOUT_MS);
            connection.setRequestProperty("Accept-Encoding", "identity");
            if (from > 0) connection.setRequestProperty("Range", "bytes=" + from + "-");
            int status = connection.getResponseCode();
            if (status == 404 || status == 410) throw new Missing(name);
            if (status == 401 || status == 403) throw new Problem("the server gives no access to " + name + " (" + status + ")");
            if (status != 200 && status != 206) throw new LineBroken("the server answered " + status + " for " + name);
            InputStream body = new Watched(connection.getInputStream());
            if (from > 0 && status == 200) skip(body, from); // a server without ranges sends the whole file
            else if (from > 0 && !startsAt(connection, from)) throw new LineBroken("the server sent another part of " + name);
            return body;
        } catch (LineBroken | Missing known) {
            throw known;
        } catch (IOException error) {
            throw new LineBroken(unreachable(error));
        }
    }

    private static boolean startsAt(HttpURLConnection connection, long from) {
        String range = connection.getHeaderField("Content-Range");
        return range != null && range.startsWith("bytes " + from + "-");
    }

    private void skip(InputStream body, long bytes) throws IOException {
        byte[] chunk = new byte[1 << 16];
        for (long left = bytes; left > 0;) {
            int got = body.read(chunk, 0, (int) Math.min(left, chunk.length));
            if (got < 0) throw new LineBroken("the server's file is shorter than before");
            left -= got;
            gained -= got;
            if (progress.moved(0)) return;
        }
    }

    private void rest(int attempt) throws Problem {
        try {
            Thread.sleep(pauseMs << (attempt - 1));
        } catch (InterruptedException stopped) {
            throw new Problem("stopped", "start again to go on where it was");
        }
    }

    private String unreachable(IOException error) {
        String why = error.getMessage() == null ? error.getClass().getSimpleName() : error.getMessage();
        return base.getHost() + " cannot be reached: " + why;
    }

    private static final class Missing extends IOException {
        private static final long serialVersionUID = 1;

        Missing(String name) {
            super("the server has no " + name);
        }
    }

    /** Turns the faults of reading into LineBroken, so that they are told from those of writing to the disk. */
    private final class Watched extends FilterInputStream {
        Watched(InputStream in) {
            super(in);
        }

        @Override
        public int read(byte[] data, int offset, int count) throws IOException {
            try {
                int got = super.read(data, offset, count);
                gained += Math.max(0, got);
                return got;
            } catch (IOException error) {
                throw new LineBroken("the connection broke: " + error.getMessage());
            }
        }
    }
}
