package ai.edgedec.core;

import static ai.edgedec.core.Checks.contains;
import static ai.edgedec.core.Checks.isTrue;
import static ai.edgedec.core.Checks.problem;
import static ai.edgedec.core.Checks.same;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;

final class ModelChecks {
    private static final String HASH = Hash.of(new byte[0]);

    private ModelChecks() {}

    /** Prints how each model of the list that a build made fits the budget, which a test compares with the catalogue. */
    public static void main(String[] arguments) throws Exception {
        String text = new String(Files.readAllBytes(new File(arguments[0]).toPath()), StandardCharsets.UTF_8);
        long budget = Long.parseLong(arguments[1]);
        for (Model one : new ModelList(Model.listed(text), Collections.emptyList(), budget).toTake)
            System.out.println(one.name + " " + one.fit(budget) + " " + one.memory + " " + one.least);
    }

    private static String entry(String name, long memory, long least) {
        return "{\"name\":\"" + name + "\",\"title\":\"T\",\"good_for\":\"tests\",\"bytes\":9,\"memory\":" + memory + ",\"least\":" + least + "}";
    }

    private static List<Model> listed() throws Problem {
        return Model.listed("{\"format\":\"edgedec-models\",\"models\":[" + String.join(",", entry("small", 10, 10),
                entry("huge", 900, 900), entry("sparse", 500, 60), entry("large", 99, 99), entry("tight", 110, 90), entry("sparse-huge", 700, 300)) + "]}");
    }

    private static File folder(File root, String name, String manifest) throws IOException {
        File made = new File(root, name);
        Files.createDirectories(made.toPath());
        Files.write(new File(made, "manifest.json").toPath(), manifest.getBytes(StandardCharsets.UTF_8));
        return made;
    }

    private static String manifest(String spec) {
        return "{\"format\":\"edgedec-bundle\",\"name\":\"own\",\"spec\":{" + spec + "},\"files\":{\"weights.bin\":{\"bytes\":1000,\"sha256\":\""
                + HASH + "\"},\"model.onnx\":{\"bytes\":50,\"sha256\":\"" + HASH + "\"}}}";
    }

    static void testModelsToTakeAreInTheOrderInWhichTheyFit(File folder) throws Exception {
        List<String> names = new ArrayList<>();
        for (Model one : new ModelList(listed(), Collections.emptyList(), 100).toTake) names.add(one.name + " " + one.fit(100));
        same(names, "[large WHOLE, small WHOLE, tight REDUCED, sparse REDUCED, sparse-huge NOT, huge NOT]");
    }

    static void testModelsThatAreHereAreNotToTake(File folder) throws Exception {
        File own = folder(folder, "own", manifest("\"table_bytes\":200"));
        File broken = folder(folder, "broken", "{");
        ModelList list = new ModelList(listed(), Arrays.asList(new File(folder, "small"), own, broken), 100);
        same(list.toTake.size(), 5);
        same(list.here.get(0).model.memory, 10);
        isTrue(list.here.get(0).model.known() && !list.here.get(1).model.known(), "one is in the list");
        same(list.here.get(1).model.memory + " " + list.here.get(1).model.bytes, "800 1050");
        same(list.here.get(2).model, null);
    }

    static void testExpertsOfAManifestMayBeReadFromStorage(File folder) throws Exception {
        String experts = "\"experts\":{\"layers\":2,\"count\":6,\"chosen\":1,\"slot_bytes\":60,\"nbytes\":720}";
        Model found = Model.of("own", manifest(experts));
        same(found.memory + " " + found.least, "1000 520");
        isTrue(found.experts && !Model.of("own", manifest("")).experts, "one has experts");
        same(found.fit(999), Budget.Fit.REDUCED);
        same(Model.of("own", manifest("\"experts\":null")).least, 1000);
    }

    static void testADamagedListIsAProblem(File folder) throws Exception {
        contains(problem(() -> Model.listed("{}")), "no list of models");
        contains(problem(() -> Model.listed("{\"format\":\"edgedec-models\",\"models\":[1]}")), "a model is not an object");
        contains(problem(() -> Model.listed("{\"format\":\"edgedec-models\",\"models\":[" + entry("x", -1, 1) + "]}")), "memory is no number");
        contains(problem(() -> Model.of("own", "{\"spec\":{}}")), "manifest.json is broken");
    }

    static void testTheCommandsNameTheModel(File folder) throws Exception {
        same(listed().get(0).commands(), "edgedec export small --for android -o small\nedgedec push small");
    }
}
