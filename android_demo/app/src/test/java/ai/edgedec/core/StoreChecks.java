package ai.edgedec.core;

import static ai.edgedec.core.Checks.contains;
import static ai.edgedec.core.Checks.isTrue;
import static ai.edgedec.core.Checks.problem;
import static ai.edgedec.core.Checks.same;

import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.Arrays;
import java.util.Map;
import java.util.TreeMap;

final class StoreChecks {
    private StoreChecks() {}

    static String head(String model) {
        return "{\"format\":\"edgedec-device-folder\",\"target\":{\"name\":\"" + model + "\"},\"files\":{";
    }

    static String device(String model, String name, long bytes, String hash) {
        return head(model) + "\"" + name + "\":{\"bytes\":" + bytes + ",\"sha256\":\"" + hash + "\"}}}";
    }

    /** A small model with files in folders, and its device.json under its name. */
    static Map<String, byte[]> model(String name) {
        Map<String, byte[]> files = new TreeMap<>();
        byte[] weights = new byte[3_000_000];
        for (int i = 0; i < weights.length; ++i) weights[i] = (byte) (i * 31 >> 3);
        files.put("weights.bin", weights);
        files.put("manifest.json", "{}".getBytes(StandardCharsets.UTF_8));
        files.put("drafters/tables/a.bin", new byte[] {1, 2, 3});
        files.put("empty", new byte[0]);
        StringBuilder list = new StringBuilder(head(name));
        for (Map.Entry<String, byte[]> one : files.entrySet())
            list.append(list.toString().endsWith("{") ? "" : ",").append("\"").append(one.getKey()).append("\":{\"bytes\":")
                    .append(one.getValue().length).append(",\"sha256\":\"").append(Hash.of(one.getValue())).append("\"}");
        files.put("device.json", list.append("}}").toString().getBytes(StandardCharsets.UTF_8));
        return files;
    }

    static File take(BundleStore store, Map<String, byte[]> files, Progress progress) throws Problem, IOException {
        String text = new String(files.get("device.json"), StandardCharsets.UTF_8);
        FileList list = FileList.parse("device.json", text);
        return store.take(list, "device.json", text, (name, from) -> stream(files.get(name), from), progress);
    }

    static InputStream stream(byte[] data, long from) {
        return new ByteArrayInputStream(Arrays.copyOfRange(data, (int) from, data.length));
    }

    static void testAModelIsInPlaceWhenItIsWhole(File folder) throws Exception {
        BundleStore store = new BundleStore(folder, null);
        Map<String, byte[]> files = model("tiny model");
        File place = take(store, files, Progress.NONE);
        same(place.getName(), "tiny_model");
        same(store.models(), Arrays.asList(place));
        for (Map.Entry<String, byte[]> one : files.entrySet())
            isTrue(Arrays.equals(Files.readAllBytes(new File(place, one.getKey()).toPath()), one.getValue()), one.getKey());
        store.verify(place, Progress.NONE);
        store.remove(place);
        same(store.models().size(), 0);
    }

    static void testAStoppedTransferGoesOnWhereItWas(File folder) throws Exception {
        BundleStore store = new BundleStore(folder, null);
        Map<String, byte[]> files = model("m");
        long[] seen = {0};
        contains(problem(() -> take(store, files, bytes -> (seen[0] += bytes) > 1_000_000)), "stopped");
        same(store.models().size(), 0);
        long[] from = {-1};
        String text = new String(files.get("device.json"), StandardCharsets.UTF_8);
        store.take(FileList.parse("device.json", text), "device.json", text, (name, start) -> {
            if (name.equals("weights.bin")) from[0] = start;
            return stream(files.get(name), start);
        }, Progress.NONE);
        isTrue(from[0] > 1_000_000, "it went on at " + from[0]);
        store.verify(store.models().get(0), Progress.NONE);
    }

    static void testAWrongHashLeavesTheModelOutAndTheRestIn(File folder) throws Exception {
        BundleStore store = new BundleStore(folder, null);
        Map<String, byte[]> files = model("m");
        Map<String, byte[]> wrong = new TreeMap<>(files);
        byte[] other = files.get("weights.bin").clone();
        other[5] ^= 1;
        wrong.put("weights.bin", other);
        contains(problem(() -> take(store, wrong, Progress.NONE)), "weights.bin fails its SHA-256");
        same(store.models().size(), 0);
        take(store, files, Progress.NONE);
        same(store.models().size(), 1);
    }

    static void testAnOldModelStaysUntilTheNextOneIsWhole(File folder) throws Exception {
        BundleStore store = new BundleStore(folder, null);
        Map<String, byte[]> files = model("m");
        File place = take(store, files, Progress.NONE);
        Map<String, byte[]> wrong = new TreeMap<>(files);
        wrong.put("weights.bin", new byte[3_000_000]);
        problem(() -> take(store, wrong, Progress.NONE));
        store.verify(place, Progress.NONE);
    }

    static void testDamageIsFoundAndNamed(File folder) throws Exception {
        BundleStore store = new BundleStore(folder, null);
        File place = take(store, model("m"), Progress.NONE);
        byte[] data = Files.readAllBytes(new File(place, "weights.bin").toPath());
        data[7] ^= 4;
        Files.write(new File(place, "weights.bin").toPath(), data);
        contains(problem(() -> store.verify(place, Progress.NONE)), "weights.bin fails its SHA-256");
        Files.write(new File(place, "weights.bin").toPath(), new byte[3]);
        contains(problem(() -> store.verify(place, Progress.NONE)), "another size");
    }

    static void testAModelThatDoesNotFitTheDiskIsRefusedBeforeItComes(File folder) throws Exception {
        String text = device("m", "weights.bin", 1L << 49, Hash.of(new byte[1]));
        contains(problem(() -> new BundleStore(folder, null).take(FileList.parse("device.json", text), "device.json", text,
                (name, from) -> {
                    throw new AssertionError("it was fetched");
                }, Progress.NONE)), "are free");
    }

    static void testAFullDiskIsSaidAndWhatCameInIsKept(File folder) throws Exception {
        Map<String, byte[]> files = model("m");
        String text = new String(files.get("device.json"), StandardCharsets.UTF_8);
        String said = problem(() -> new BundleStore(folder, null).take(FileList.parse("device.json", text), "device.json", text,
                (name, from) -> {
                    throw new IOException("write failed: ENOSPC (No space left on device)");
                }, Progress.NONE));
        contains(said, "the disk is full");
    }

    static void testPushedModelsCountWhenTheirListIsThere(File folder) throws Exception {
        File own = new File(folder, "own");
        File pushed = new File(folder, "pushed");
        BundleStore store = new BundleStore(own, pushed);
        File sent = new File(pushed, "m");
        isTrue(sent.mkdirs(), "a folder");
        Files.write(new File(sent, "manifest.json").toPath(), new byte[] {'{', '}'});
        same(store.models().size(), 0);
        Files.write(new File(sent, "device.json").toPath(), new byte[] {'{', '}'});
        same(store.models(), Arrays.asList(sent));
        same(store.folder("m"), sent);
        File place = take(store, model("m"), Progress.NONE);
        same(store.models(), Arrays.asList(place)); // the one of this store comes first
        store.remove(sent);
        same(store.folder("m"), place);
    }

    static void testOnlyFoldersOfTheStoreAreRemoved(File folder) throws Exception {
        contains(problem(() -> new BundleStore(folder, null).remove(folder)), "not in the store");
        isTrue(folder.isDirectory(), "the store itself");
    }
}
