package ai.edgedec.core;

import java.io.File;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** The models that are on the phone, and those to take, by the memory that a model may have. */
public final class ModelList {
    /** One that is here; {@code model} is null where its manifest cannot be read. */
    public static final class Here {
        public final File folder;
        public final Model model;

        Here(File folder, Model model) {
            this.folder = folder;
            this.model = model;
        }
    }

    public final List<Here> here = new ArrayList<>();
    /** Those that fit come first, the largest of them before the others; then those that lack least. */
    public final List<Model> toTake = new ArrayList<>();

    public ModelList(List<Model> listed, List<File> folders, long budget) {
        Map<String, Model> known = new HashMap<>();
        for (Model one : listed) known.put(one.name, one);
        Set<String> names = new HashSet<>();
        for (File folder : folders) {
            names.add(folder.getName());
            here.add(new Here(folder, known.containsKey(folder.getName()) ? known.get(folder.getName()) : read(folder)));
        }
        for (Model one : listed) if (!names.contains(one.name)) toTake.add(one);
        toTake.sort(Comparator.comparing((Model one) -> one.fit(budget)).thenComparingLong(one -> wanted(one, budget)));
    }

    private static long wanted(Model one, long budget) {
        Budget.Fit fit = one.fit(budget);
        return fit == Budget.Fit.WHOLE ? -one.memory : fit == Budget.Fit.REDUCED ? one.memory : one.least;
    }

    private static Model read(File folder) {
        try {
            return Model.of(folder.getName(), BundleStore.readList(new File(folder, FileList.MANIFEST)));
        } catch (Problem damaged) {
            return null;
        }
    }
}
