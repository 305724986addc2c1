package ai.edgedec.core;

import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;

/**
 * The models on this device: a folder for each, named by its model, and those that are still coming in under "incoming".
 * A model is moved to its place when it is whole, so a folder in place is whole. Beside them are those that `edgedec push`
 * sent to another folder: their device.json comes last, so a folder that has one is whole.
 */
public final class BundleStore {
    /** Bytes that stay free on the disk: a full one hinders the whole phone. */
    public static final long SPARE = 64L << 20;

    /** Where the bytes of a source's file come from; {@code from}: how many of them are here already. */
    public interface Source {
        InputStream open(String name, long from) throws IOException, Problem;
    }

    private final File root;
    private final File incoming;
    private final File pushed;

    /** {@code pushed}: the folder of pushed models; null: there is none. */
    public BundleStore(File root, File pushed) {
        this.root = root;
        this.pushed = pushed;
        incoming = new File(root, "incoming");
    }

    /** The folders of the models that are whole, by name. */
    public List<File> models() {
        List<File> found = new ArrayList<>();
        for (File one : inside(root))
            if (!one.equals(incoming) && new File(one, FileList.MANIFEST).isFile()) found.add(one);
        for (File one : inside(pushed))
            if (new File(one, FileList.DEVICE).isFile() && !folder(one.getName()).getParentFile().equals(root)) found.add(one);
        return found;
    }

    private static File[] inside(File folder) {
        File[] all = folder == null ? null : folder.listFiles();
        if (all == null) return new File[0];
        Arrays.sort(all);
        return all;
    }

    /** The folder of a model by its folder's name; it may not exist. */
    public File folder(String name) {
        File own = new File(root, name);
        File sent = new File(pushed == null ? root : pushed, name);
        return own.isDirectory() || !sent.isDirectory() ? own : sent;
    }

    /** Removes a model. */
    public void remove(File model) throws Problem {
        if (!root.equals(model.getParentFile()) && (pushed == null || !pushed.equals(model.getParentFile()))) throw new Problem(model + " is not in the store");
        delete(model);
    }

    /**
     * Takes in a model, whose list is already read, file by file. Files that came in before are kept, so a transfer that
     * broke off goes on. Returns the folder of the model.
     */
    public File take(FileList list, String listName, String listText, Source source, Progress progress)
            throws Problem, LineBroken {
        File coming = new File(incoming, safe(list.model));
        try {
            Files.createDirectories(coming.toPath());
            keepOnly(list, coming);
            checkRoom(list, coming);
            for (FileList.Entry entry : list.entries) takeFile(entry, coming, source, progress);
            Files.write(new File(coming, listName).toPath(), listText.getBytes(StandardCharsets.UTF_8));
            File place = new File(root, safe(list.model));
            if (place.exists()) delete(place);
            Files.move(coming.toPath(), place.toPath(), StandardCopyOption.ATOMIC_MOVE);
            return place;
        } catch (LineBroken broken) {
            throw broken;
        } catch (IOException error) {
            throw unwritten(error, list);
        }
    }

    /** Compares every file with its hash. */
    public void verify(File model, Progress progress) throws Problem {
        String name = new File(model, FileList.DEVICE).isFile() ? FileList.DEVICE : FileList.MANIFEST;
        FileList list = FileList.parse(name, readList(new File(model, name)));
        for (FileList.Entry entry : list.entries) {
            File file = new File(model, entry.name);
            if (!file.isFile()) throw damaged(entry.name + " is missing");
            if (file.length() != entry.bytes) throw damaged(entry.name + " has another size");
            MessageDigest digest = Hash.sha256();
            try {
                Hash.feed(digest, file, progress);
            } catch (IOException error) {
                throw damaged(entry.name + " cannot be read");
            }
            if (!Hash.hex(digest.digest()).equals(entry.sha256)) throw damaged(entry.name + " fails its SHA-256");
        }
    }

    public static String readList(File file) throws Problem {
        try (InputStream in = new FileInputStream(file)) {
            return readList(in, file.getName());
        } catch (IOException error) {
            throw new Problem(file.getName() + " cannot be read", "choose the folder that has it");
        }
    }

    /** Reads a list, which has at most FileList.MOST_BYTES. */
    public static String readList(InputStream in, String name) throws IOException, Problem {
        byte[] data = new byte[FileList.MOST_BYTES + 1];
        int size = 0;
        for (int got; size < data.length && (got = in.read(data, size, data.length - size)) >= 0;) size += got;
        if (size > FileList.MOST_BYTES) throw new Problem(name + " is too large");
        return new String(data, 0, size, StandardCharsets.UTF_8);
    }

    private void takeFile(FileList.Entry entry, File coming, Source source, Progress progress) throws Problem, IOException {
        File file = new File(coming, entry.name);
        Files.createDirectories(file.getParentFile().toPath());
        if (file.isFile() && file.length() > entry.bytes) Files.delete(file.toPath());
        MessageDigest digest = Hash.sha256();
        long have = file.isFile() ? file.length() : 0;
        boolean[] ended = {false};
        Progress watch = bytes -> ended[0] |= progress.moved(bytes);
        if (have > 0) Hash.feed(digest, file, watch);
        if (have < entry.bytes && !ended[0]) {
            try (InputStream in = source.open(entry.name, have); OutputStream out = new FileOutputStream(file, have > 0)) {
                have += copy(in, out, digest, entry.bytes - have, watch, ended);
            }
        } else if (entry.bytes == 0) {
            Files.write(file.toPath(), new byte[0]);
        }
        if (ended[0]) throw new Problem("stopped", "start again to go on where it was");
        if (have < entry.bytes)
            throw new LineBroken(entry.name + " ended after " + have + " of " + entry.bytes + " bytes");
        if (Hash.hex(digest.digest()).equals(entry.sha256)) return;
        Files.delete(file.toPath());
        throw new Problem(entry.name + " fails its SHA-256: it is damaged or another file", "fetch or export the model again");
    }

    private static long copy(InputStream in, OutputStream out, MessageDigest digest, long most, Progress watch,
            boolean[] ended) throws IOException {
        byte[] chunk = new byte[1 << 17];
        long done = 0;
        while (done < most && !ended[0]) {
            int got = in.read(chunk, 0, (int) Math.min(chunk.length, most - done));
            if (got < 0) break;
            out.write(chunk, 0, got);
            digest.update(chunk, 0, got);
            done += got;
            watch.moved(got);
        }
        return done;
    }

    private void checkRoom(FileList list, File coming) throws Problem {
        long missing = 0;
        for (FileList.Entry entry : list.entries)
            missing += Math.max(0, entry.bytes - new File(coming, entry.name).length());
        long free = coming.getUsableSpace();
        if (missing > 0 && missing + SPARE > free)
            throw new Problem("the model needs " + Units.bytes(missing) + " more, and " + Units.bytes(free) + " are free",
                    "free some space and try again");
    }

    /** Removes what an earlier version of the model left behind. */
    private static void keepOnly(FileList list, File coming) throws IOException {
        java.util.Set<File> wanted = new java.util.HashSet<>();
        for (FileList.Entry entry : list.entries) wanted.add(new File(coming, entry.name));
        List<File> found = new ArrayList<>();
        try (java.util.stream.Stream<java.nio.file.Path> all = Files.walk(coming.toPath())) {
            all.filter(Files::isRegularFile).forEach(path -> found.add(path.toFile()));
        }
        for (File file : found) if (!wanted.contains(file)) Files.delete(file.toPath());
    }

    private static Problem unwritten(IOException error, FileList list) {
        String why = String.valueOf(error.getMessage());
        if (why.contains("ENOSPC") || why.contains("No space left"))
            return new Problem("the disk is full", "free some space and try again; what came in is kept");
        return new Problem("the transfer of " + list.model + " broke off: " + why, "try again: it goes on where it was");
    }

    private static Problem damaged(String why) {
        return new Problem("the model is damaged: " + why, "remove it and fetch it again");
    }

    private static String safe(String model) {
        String name = model.replaceAll("[^A-Za-z0-9._-]", "_");
        return name.isEmpty() || name.startsWith(".") || name.equals("incoming") ? "model-" + name : name;
    }

    private static void delete(File file) throws Problem {
        File[] inside = Files.isSymbolicLink(file.toPath()) ? null : file.listFiles();
        if (inside != null) for (File one : inside) delete(one);
        if (!file.delete()) throw new Problem(file.getName() + " cannot be removed");
    }
}
